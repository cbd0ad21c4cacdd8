// Builds the services that the pages of the admin area work with.
import { createBrowsing, createLabelStatements } from '../resources/records/admin-listing.ts';
import { createBulk } from '../resources/records/bulk-operations.ts';
import { createOperations } from '../resources/records/operations.ts';
import type { Panel } from '../resources/definition/panel.ts';
import { createPanels } from './web/panel-data.ts';
import type { Resource } from '../resources/definition/resource.ts';
import { HISTORY } from '../resources/definition/system-tables.ts';
import { serveForAdmin, type AdminView } from '../resources/access/admin-view.ts';
import type { Schema } from '../resources/setup/schema-setup.ts';
import type { Views } from '../resources/access/resource-view.ts';
import { historyOf } from '../query/statements/visible-history.ts';
import type { Database } from '../db/connection/database.ts';
import type { Replicas } from '../db/replicas/replicas.ts';
import { Lane } from '../db/lanes/lane.ts';
import { isRead, type ApiRequest } from '../http/message/message.ts';
import type { Services } from './web/admin-context.ts';
import { readPosition } from './web/cookies.ts';
import { createUnsavedForms } from './web/unsaved-form.ts';

/** What the composition root hands to the admin area. */
export interface AdminOptions extends Pick<
  Services,
  'settings' | 'authentication' | 'passwords' | 'sessions' | 'logger'
> {
  readonly replicas: Replicas;
  readonly definitions: readonly Resource[];
  readonly schema: Schema;
  readonly views: Views;
  readonly panels: readonly Panel[];
  /** The secret that all processes on the database share. */
  readonly secret: Buffer;
}

/** Maximum imports at once, and of one admin: each file is parsed in this process before its statements run. */
const MAX_IMPORTS = 4;

/**
 * Builds the services that all requests share.
 * @returns the resources, and a function that returns the services for one request
 */
export function createServices({
  definitions,
  schema,
  views,
  panels,
  secret,
  replicas,
  ...parts
}: AdminOptions) {
  const { settings, passwords } = parts;
  const database = replicas.primary;
  const { models } = schema;
  const resources = serveForAdmin(definitions, models, views, schema.catalog);
  const history = resources.get(HISTORY.model);
  if (!history) throw new Error('the registry has no resource for the history');
  const statements = createLabelStatements(resources, settings);
  const histories = new Map(
    [...resources.values()].map((resource) => [resource, historyOf(history, resource)]),
  );
  const shared = {
    ...parts,
    resources,
    history,
    historyOf: (resource: AdminView) => histories.get(resource) ?? history,
    unsavedForms: createUnsavedForms(secret),
    panels: createPanels(database, panels),
    imports: new Lane({
      connections: MAX_IMPORTS,
      maxWait: 2_000,
      own: 'Your earlier imports are still running. Try again when they have finished.',
      full: 'Too many imports are running. Try again.',
    }),
  };
  const tables = [...models.values()];
  const servicesFor = (request: ApiRequest): Services => {
    const { requester } = request;
    // A change reads what it needs where it writes.
    const requesterDatabase = isRead(request.method)
      ? replicas.reading(requester, readPosition(request))
      : replicas.changing(requester);
    const operationsOn = (runner: Pick<Database, 'run'>) =>
      createOperations(runner, passwords, requester, requesterDatabase);
    const browsing = createBrowsing(requesterDatabase, resources, statements, settings);
    return {
      ...shared,
      database: requesterDatabase,
      browsing,
      operations: operationsOn(requesterDatabase),
      inTransaction: (work) =>
        requesterDatabase.transaction((transaction) => work(operationsOn(transaction), transaction), 'bulk'),
      bulk: createBulk(requesterDatabase, resources, browsing, tables),
    };
  };
  return { resources, servicesFor };
}
