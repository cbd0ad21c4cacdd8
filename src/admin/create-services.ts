// Builds the services that the pages of the admin area work with.
import {
  createLabelStatements,
  createBrowsing,
  type LabelStatements,
} from '../resources/records/admin-listing.ts';
import { createBulk } from '../resources/records/bulk-operations.ts';
import { createOperations } from '../resources/records/operations.ts';
import type { Panel } from '../resources/definition/panel.ts';
import { createPanels } from './web/panel-data.ts';
import type { AdminArea } from '../resources/definition/admin-area.ts';
import type { Resource } from '../resources/definition/resource.ts';
import { HISTORY } from '../resources/definition/system-tables.ts';
import {
  serveForAdmin,
  withMaskedHistory,
  type AdminView,
  type AdminViews,
} from '../resources/access/admin-view.ts';
import type { Passwords } from '../resources/users/password-hashing.ts';
import type { Schema } from '../resources/setup/schema-setup.ts';
import { historyOf, maskHistory } from '../query/statements/visible-history.ts';
import { ADMIN, ADMIN_AREA, identityOf, isForAdmins, type Access } from '../resources/access/access.ts';
import { withIdentity, type Database } from '../db/connection/database.ts';
import type { Replicas } from '../db/replicas/replicas.ts';
import { Lane } from '../db/lanes/lane.ts';
import { messageOf } from '../messages.ts';
import { isRead } from '../http/message/message.ts';
import type { Services, ServicesFor } from './web/admin-context.ts';
import { readPosition } from './web/cookies.ts';
import { createSignedTexts, PENDING_LOGIN_LIFE, type PendingLogin } from './web/signed-text.ts';
import { translateTitles } from './web/system-titles.ts';
import { createUnsavedForms } from './web/unsaved-form.ts';

/** What the composition root hands to the admin area. */
export interface AdminOptions extends Pick<
  Services,
  | 'settings'
  | 'authentication'
  | 'sessions'
  | 'secondFactors'
  | 'tokens'
  | 'savedViews'
  | 'passwordLinks'
  | 'accounts'
  | 'views'
  | 'logger'
  | 'admitted'
  | 'recordEvent'
> {
  readonly replicas: Replicas;
  readonly passwords: Passwords;
  readonly definitions: readonly Resource[];
  readonly schema: Schema;
  readonly panels: readonly Panel[];
  readonly adminArea: AdminArea;
  /** The secret that all processes on the database share. */
  readonly secret: Buffer;
}

/** Maximum imports at once, and of one admin: each file is parsed in this process before its statements run. */
const MAX_IMPORTS = 4;

/** What an access sees in the admin area. */
interface SeenArea {
  readonly resources: AdminViews;
  readonly history: AdminView;
  readonly historyOf: (resource: AdminView) => AdminView;
  readonly statements: LabelStatements;
}

/** Keys of accesses that are resolved at a time. */
const MAX_KEYS = 200;

/**
 * Builds the services that all requests share.
 * @returns what a request without a session needs, with the resources that admins see, and the services for one request
 */
export function createServices({
  definitions,
  schema,
  panels,
  secret,
  replicas,
  passwords,
  ...parts
}: AdminOptions) {
  const { settings, views } = parts;
  const database = replicas.primary;
  const { models } = schema;

  function areaOf(resources: AdminViews, isWhole: boolean): SeenArea {
    translateTitles(resources);
    const history = resources.get(HISTORY.model) ?? noHistory;
    const histories = new Map<AdminView, AdminView>();
    return {
      resources,
      history,
      statements: createLabelStatements(resources, settings),
      historyOf: (resource) => {
        const known =
          histories.get(resource) ?? historyOf(history, resource, [...resources.values()], isWhole);
        histories.set(resource, known);
        return known;
      },
    };
  }

  const everything = serveForAdmin(definitions, models, views, schema.catalog);
  const ofAdmins = everything.get(HISTORY.model);
  if (!ofAdmins) throw new Error('the registry has no resource for the history');
  /** For those who may see nothing of the history. */
  const noHistory = maskHistory(ofAdmins, [], undefined);
  const areas = new Map<string, SeenArea>();

  /** What an access sees, with the values of its caller where a rule about rows needs them. */
  function areaFor(access: Access): SeenArea {
    const shared = { ...access, me: undefined };
    let known = areas.get(access.key);
    if (!known) {
      const [oldest] = areas.keys();
      if (areas.size >= MAX_KEYS && oldest !== undefined) areas.delete(oldest);
      const resources = serveForAdmin(definitions, models, views, schema.catalog, shared);
      known = areaOf(resources, isForAdmins(access.level));
      areas.set(access.key, known);
    }
    const own = views(access);
    if (own === views(shared)) return known;
    // No other request has the same values, so nothing of it is kept.
    const bound = new Map([...known.resources].map(([name, view]) => [name, { ...view, ...own.get(name) }]));
    return areaOf(withMaskedHistory(bound, undefined), false);
  }

  const users = views(ADMIN_AREA).get(settings.userModel) ?? views(ADMIN).get(settings.userModel);
  if (!users) throw new Error('the registry has no user model');
  const shared = {
    ...parts,
    users,
    resources: everything,
    resourcesOf: (access: Access) => areaFor(access).resources,
    unsavedForms: createUnsavedForms(secret),
    pendingLogins: createSignedTexts<PendingLogin>(secret, 'pending login', PENDING_LOGIN_LIFE),
    panels: createPanels(database, panels, parts.logger),
    imports: new Lane({
      connections: MAX_IMPORTS,
      maxWait: 2_000,
      own: messageOf('tooManyOwnImports'),
      full: messageOf('tooManyImports'),
    }),
  };
  const tables = [...models.values()];
  // A page has statements on many tables.
  const needsIdentity = definitions.some(({ identity }) => identity);
  const servicesFor: ServicesFor = (request, access) => {
    const { requester } = request;
    // A change reads what it needs where it writes.
    const plain = isRead(request.method)
      ? replicas.reading(requester, readPosition(request))
      : replicas.changing(requester);
    const requesterDatabase = needsIdentity ? withIdentity(plain, identityOf(access, request.id)) : plain;
    const operationsOn = (runner: Pick<Database, 'run'>) =>
      createOperations(runner, passwords, requester, requesterDatabase);
    const { statements, ...area } = areaFor(access);
    const browsing = createBrowsing(requesterDatabase, area.resources, statements, settings);
    return {
      ...shared,
      ...area,
      database: requesterDatabase,
      browsing,
      operations: operationsOn(requesterDatabase),
      inTransaction: (work) =>
        requesterDatabase.transaction((transaction) => work(operationsOn(transaction), transaction), 'bulk'),
      bulk: createBulk(requesterDatabase, area.resources, browsing, tables),
    };
  };
  return { shared, servicesFor };
}
