// Undoes a deletion, or all changes of one operation, as far as the records have not changed since.
import { createHash, randomBytes } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { asProblem } from '../../db/connection/database-errors.ts';
import { checkedAtEnd, SAVEPOINT, type Transaction } from '../../db/connection/transactions.ts';
import { isKeyPart } from '../../db/schema/model.ts';
import { Problem, notFound } from '../../errors.ts';
import { undoEntriesStatement, undoSizeStatement } from '../../query/statements/undo-statements.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { TransactionGuard } from '../../resources/records/bulk-operations.ts';
import { parseJsonFields, type JsonFields } from '../../resources/records/json-fields.ts';
import { textOfField } from '../../resources/records/labeled-record.ts';
import type { Operations } from '../../resources/records/operations.ts';
import {
  changeOf,
  formerName,
  labelsOfChanged,
  mayUndo,
  REVERSE,
  type HistoryChange,
} from '../history/history-entry.ts';
import type { Action, ActionPage } from '../session/action.ts';
import { assertSession } from '../session/assert-session.ts';
import { hasPrivilegeColumn, isOwnUser, type Refusal } from '../session/password-confirmation.ts';
import type { RecordContext } from '../web/admin-context.ts';
import { LinkParameters, links } from '../web/admin-links.ts';
import { redirectDone } from '../web/admin-request.ts';
import { shortened } from '../web/display-text.ts';
import { html, type Html } from '../web/html.ts';
import { separated, t, type PlainCode } from '../web/language.ts';
import { listCrumb } from '../web/layout.ts';
import { inBatchOf, onceOnly, submitOnceField, type Once } from '../web/submit-once.ts';
import { sentence, table } from '../web/widgets.ts';
import { effectsOf, type Effects } from './deletion-effects.ts';

/** Maximum entries and bytes of an operation that can be undone. */
const MAX_ENTRIES = 5_000;
const MAX_BYTES = 32 * 1024 * 1024;
/** Maximum lines of each table. */
const MAX_LISTED = 200;
/** How often records that refer to others of the operation are tried again. */
const MAX_ROUNDS = 10;

/** What an operation did with one record, all its changes of it together. */
interface Step extends HistoryChange {
  readonly isOutdated: boolean;
  /** The keys of the columns that have changed since, which keep their values. */
  newer: ReadonlySet<string>;
  /** Why it cannot be undone; undefined if it can. */
  reason?: string | undefined;
  /** The version of the row that was compared with the history. */
  version?: string | undefined;
}

/** The changes of one record as one. @returns undefined where the record was added and deleted again */
function merged(earlier: Step, later: Step): Step | undefined {
  const [isNew, isGone] = [earlier.action === 'create', later.action === 'delete'];
  if (isNew && isGone) return undefined;
  return {
    ...later,
    newer: new Set([...earlier.newer, ...later.newer]),
    action: isNew ? 'create' : isGone ? 'delete' : 'update',
    before: new Map([...later.before, ...earlier.before]),
    after: new Map([...earlier.after, ...later.after]),
    unreadable: earlier.unreadable ?? later.unreadable,
  };
}

/** Reads what the entry's operation did, as far as the caller sees it. @throws Problem 404, 413 */
async function readSteps(context: RecordContext): Promise<readonly Step[]> {
  const { history, browsing, database } = context;
  const entry = changeOf(await browsing.preview(history, context.id), context);
  if (!mayUndo(entry)) throw notFound(t('cannotBeUndone'));
  const target = entry.batch === null ? { id: entry.id } : { batch: entry.batch };
  const { entries, bytes } = await database.run(undoSizeStatement(history.model, target), 'read');
  if (entries > MAX_ENTRIES || bytes > MAX_BYTES)
    throw new Problem(413, t('tooManyToUndo', { count: entries }));
  const steps = new Map<string, Step | undefined>();
  for (const { json, newer, isOutdated } of await database.run(
    undoEntriesStatement(history.model, target),
    'read',
  )) {
    const fields = parseJsonFields(json);
    const change = changeOf({ id: textOfField(fields, 'id') ?? '', fields }, context);
    const step = { ...change, isOutdated, newer: new Set(newer) };
    const key = step.record === '' ? step.id : `${step.model} ${step.record}`;
    const earlier = steps.get(key);
    steps.set(key, earlier ? merged(earlier, step) : step);
    if (json.length > 1024 || steps.size % 100 === 0) await setImmediate();
  }
  return [...steps.values()].filter((step) => step !== undefined);
}

/** As it writes what was stored: also columns that forms only show, and values that are larger than what forms take. */
const restoring = (resource: AdminView): AdminView => ({
  ...resource,
  maxValue: Infinity,
  readonly: new Set(resource.model.columns.filter(({ generated }) => generated)),
});

/** As it compares: also columns that the caller may not set. */
const comparing = (resource: AdminView): AdminView => ({
  ...restoring(resource),
  settable: { ...resource.settable, update: new Set(resource.output) },
});

/** Whether it may have values that this caller can neither see nor put back. Those of passwords are mentioned anyway. */
const hidesValues = ({ model, output }: AdminView): boolean =>
  model.columns.some((column) => !column.isPassword && !output.includes(column));

/** A side of a change as the body of a write. Passwords are not in the history. @param isNew whether it has the parts of the key */
function bodyOf({ model, output }: AdminView, values: JsonFields, isNew: boolean): JsonFields {
  const columns = output.filter(
    (column) =>
      column !== model.primaryKey &&
      !column.generated &&
      !column.isPassword &&
      (isNew || !isKeyPart(model, column)),
  );
  return new Map(
    columns.flatMap(({ key }) => {
      const field = values.get(key);
      return field ? [[key, field] as const] : [];
    }),
  );
}

/** Why a step cannot be undone, as far as reading can tell. Notes the version of the row. */
async function refusalOf(context: RecordContext, step: Step): Promise<string | undefined> {
  const { resource, action, record, before, unreadable } = step;
  const { operations } = context;
  if (!resource || record === '') return t('recordNotShown');
  if (!resource.may.has(REVERSE[action] ?? 'change')) return t('mayNotReverse');
  if (unreadable !== undefined) return unreadable;
  if (step.isOutdated || (action !== 'update' && step.newer.size > 0)) return t('hasNewerChanges');
  if (isOwnUser({ ...context, resource }, record)) return t('isOwnUser');
  const body = bodyOf(resource, before, action === 'delete');
  const settable = resource.settable[action === 'delete' ? 'create' : 'update'];
  const unsettable = resource.output.filter((column) => body.has(column.key) && !settable.has(column));
  if (action !== 'create' && unsettable.length > 0)
    return t('mayNotSet', { columns: unsettable.map(({ title }) => title).join(', ') });
  if (action === 'delete') return resource.model.primaryKey.generated ? t('databaseMakesKey') : undefined;
  if (action === 'update' && body.size === 0) return t('noValueToPutBack');
  step.version = await operations.version(resource, record);
  const kept = await columnsSince(context, step, resource);
  if (action === 'create') return kept.size > 0 ? t('hasChangedSince') : undefined;
  const newer = new Set([...step.newer, ...kept]);
  const isAll = [...body.keys()].every((key) => newer.has(key));
  if (isAll) return t(step.newer.size > 0 ? 'hasNewerChanges' : 'hasChangedSince');
  step.newer = newer;
  return undefined;
}

/** The keys of the columns that have other values than after the operation, beside those with newer changes. */
function columnsSince(
  { browsing, caller }: RecordContext,
  { record, after, newer }: Step,
  resource: AdminView,
): Promise<ReadonlySet<string>> {
  const values = [...bodyOf(resource, after, false)].filter(([key]) => !newer.has(key));
  return browsing.otherValues(comparing(resource), record, new Map(values), caller);
}

/** @throws Problem 412 for a record that has changed since its comparison */
async function reverse(
  operations: Operations,
  { action, before, newer, record, version = '' }: Step,
  shown: AdminView,
  caller: RecordContext['caller'],
): Promise<unknown> {
  const resource = restoring(shown);
  const { model } = resource;
  if (action === 'create') return operations.remove(resource, record, caller, [version]);
  const fields = new Map(
    [...bodyOf(resource, before, action === 'delete')].filter(
      ([key]) => action === 'delete' || !newer.has(key),
    ),
  );
  if (action === 'update') return operations.update(resource, record, fields, caller, [version]);
  const id = before.get('id');
  if (id && !model.primaryKey.parts) fields.set('id', id);
  // Where a password is required, it is one that nobody knows.
  const secret = randomBytes(32).toString('hex');
  for (const { key, isPassword, nullable, hasDefault } of model.columns)
    if (isPassword && !nullable && !hasDefault) fields.set(key, { value: secret, source: `"${secret}"` });
  return operations.restore(resource, fields, caller);
}

/** The text of a problem, for a table. @throws an error that is no fault of the record */
export function reasonOf(error: unknown): string {
  const problem = asProblem(error);
  if (!problem || problem.status >= 500) throw error;
  const faults = Object.entries(problem.errors ?? {}).map(([label, texts]) =>
    t('labeled', { label, value: texts.join(', ') }),
  );
  return separated(faults) || problem.message;
}

/** Reverses steps in a transaction. Each one that the database refuses has the reason then. */
async function reverseAll(
  context: RecordContext,
  operations: Operations,
  transaction: Transaction,
  steps: readonly Step[],
): Promise<void> {
  const { caller } = context;
  const { send } = transaction;
  let pending = steps;
  for (let rounds = 0; pending.length > 0 && rounds < MAX_ROUNDS; rounds += 1) {
    const failed: Step[] = [];
    for (const step of pending) {
      if (!step.resource) continue;
      await send(SAVEPOINT.set);
      try {
        await reverse(operations, step, step.resource, caller);
        step.reason = undefined;
      } catch (error) {
        step.reason = reasonOf(error);
        await send(SAVEPOINT.rollBack);
        failed.push(step);
      }
      await send(SAVEPOINT.release);
    }
    if (failed.length === pending.length) break;
    pending = failed;
  }
}

/** Thrown to roll the transaction back. */
class Rollback extends Error {}

/** What can be undone is no longer what the page has shown. */
class PlanChanged extends Error {}

/** What would be deleted with the records that are deleted again. */
interface Deletions {
  readonly resource: AdminView;
  readonly effects: Effects;
  readonly needsPassword: boolean;
  readonly guard: TransactionGuard | undefined;
}

/** What an undo does, and what it asks for. */
interface Plan {
  readonly steps: readonly Step[];
  readonly deletions: readonly Deletions[];
  readonly needsPassword: boolean;
}

/** The steps that the database has refused, by id, and why. */
type Refused = ReadonlyMap<string, string>;

async function planOf(context: RecordContext, refused: Refused): Promise<Plan> {
  const { bulk, settings, caller } = context;
  const steps = await readSteps(context);
  for (const step of steps) step.reason = refused.get(step.id) ?? (await refusalOf(context, step));
  const possible = steps.filter(({ reason }) => reason === undefined);
  const added = possible.filter(({ action }) => action === 'create');
  const deletions: Deletions[] = [];
  for (const resource of new Set(added.map((step) => step.resource))) {
    if (!resource) continue;
    const of = { ...context, resource };
    const ofResource = added.filter((step) => step.resource === resource);
    const selection = { query: '', search: '', ids: ofResource.map(({ record }) => record) };
    if (await bulk.deletes(resource, selection, settings.userModel, caller.id))
      for (const step of ofResource) step.reason = t('alsoDeletesOwnUser');
    else
      deletions.push({
        resource,
        effects: await effectsOf(of, selection, ofResource.length),
        needsPassword: await bulk.deletesAdmin(resource, selection, settings.userModel),
        guard: bulk.adminGuard(resource, selection, settings.userModel),
      });
  }
  const isOfUsers = ({ resource }: Step): boolean =>
    resource !== undefined && hasPrivilegeColumn({ ...context, resource }, resource.model.columns, false);
  const needsPassword = possible.some(isOfUsers) || deletions.some((one) => one.needsPassword);
  return { steps, deletions, needsPassword };
}

/** Identifies what the page shows, so that nothing else is done than what was confirmed. */
const digestOf = ({ steps, deletions }: Plan): string =>
  createHash('sha256')
    .update(
      steps.map(({ id, reason, newer }) => `${id} ${reason === undefined} ${[...newer].join()},`).join(''),
    )
    .update(deletions.map(({ effects }) => effects.digest).join())
    .digest('base64url')
    .slice(0, 16);

const DONE: Readonly<Record<string, PlainCode>> = {
  create: 'deletedAgain',
  update: 'changedBack',
  delete: 'addedAgain',
};

/** Whether a step may leave values out that were there before. */
const isIncomplete = ({ action, resource }: Step): boolean =>
  action !== 'create' && resource !== undefined && hidesValues(resource);

/** The page that shows what an undo does, and what it skips. */
async function undoPage(context: RecordContext, plan: Plan, refused: Refused): Promise<ActionPage> {
  const { history, id } = context;
  const { steps, deletions } = plan;
  const [done, skipped] = [true, false].map((isDone) =>
    steps.filter(({ reason }) => (reason === undefined) === isDone),
  ) as [Step[], Step[]];
  const listed = [done, skipped].map((some) => some.slice(0, MAX_LISTED)).flat();
  const labels = await labelsOfChanged(context, listed);
  const row = (step: Step): (Html | string)[] => {
    const { resource, record, action, reason, title, before, newer } = step;
    const name = shortened(labels(resource, record) ?? formerName(step));
    const done = DONE[action];
    const what = done === undefined ? action : t(done);
    const kept = (resource?.output ?? []).filter(({ key }) => newer.has(key) && before.has(key));
    const columns = kept.map((column) => column.title).join(', ');
    const except = kept.length === 0 ? what : t('exceptColumns', { what, columns, count: kept.length });
    return [`${title} ${name}`.trim(), reason ?? sentence(except)];
  };
  const part = (title: string, head: string, some: readonly Step[]): Html | false =>
    some.length > 0 &&
    html`<section>
      <h2>${title}</h2>
      ${table([t('record'), head], some.slice(0, MAX_LISTED).map(row))}
      ${some.length > MAX_LISTED && html`<p class="hint">${t('andMore', { more: some.length - MAX_LISTED })}</p>`}
    </section>`;
  const back = links.record(history.name, id);
  const losesPasswords = done.some(
    ({ action, resource }) => action === 'delete' && resource?.model.columns.some((one) => one.isPassword),
  );
  return {
    title: done.length === 0 ? t('nothingToUndo') : t('undoChanges', { count: done.length }),
    crumbs: [listCrumb(history), { text: `#${id}`, href: back }, t('undo')],
    kind: 'delete',
    address: links.part(history.name, id, 'undo'),
    impossible: done.length === 0 ? t('nothingCanBeUndone') : undefined,
    fields: html`${submitOnceField()} <input type="hidden" name="_plan" value="${digestOf(plan)}" />
      <input type="hidden" name="_refused" value="${[...refused.keys()].join(' ')}" />
      <p class="lead">
        ${
          skipped.length > 0
            ? t('setBackAndSkipped', { count: done.length, skipped: skipped.length })
            : t('setBack', { count: done.length })
        }
      </p>
      ${losesPasswords && html`<p>${t('losesPasswords')}</p>`}
      ${done.some(isIncomplete) && html`<p>${t('losesValues')}</p>`}`,
    button: t('undo'),
    isDanger: true,
    back: { text: t('backToChange'), href: back },
    around: (form) =>
      html`${form} ${part(t('skipped'), t('why'), skipped)} ${part(t('undone'), t('whatHappens'), done)}
      ${deletions.map(
        ({ resource, effects }) =>
          html`<h2>${resource.title}</h2>
            ${effects.view}`,
      )}`,
  };
}

/** Undoes in one transaction what the page has shown. What the database refuses is shown first. */
export function undo(context: RecordContext): Action {
  const { history, inTransaction } = context;
  const refused = new Map<string, string>();
  let known: Plan | undefined;
  const planNow = async (): Promise<Plan> => (known ??= await planOf(context, refused));
  const refuse = (notice: string): Refusal => ({ errors: {}, notice, status: 409 });
  return {
    page: async () => undoPage(context, await planNow(), refused),

    async needs() {
      const { needsPassword, deletions } = await planNow();
      // A code as for other bulk deletions.
      return { password: needsPassword && t('requiredToChangeUsers'), code: deletions.length > 0 };
    },

    check(form) {
      for (const id of form.get('_refused')?.split(' ', MAX_ENTRIES) ?? [])
        if (/^\d{1,19}$/.test(id)) refused.set(id, t('databaseRefuses'));
      return undefined;
    },

    async run(form) {
      const plan = await planNow();
      const caller = await inBatchOf(context, context.caller, form);
      const possible = plan.steps.filter(({ reason }) => reason === undefined);
      const text = t(possible.some(isIncomplete) ? 'changesUndoneInPart' : 'changesUndone', {
        count: possible.length,
      });
      const undoAll = ({ begin, end }: Once): Promise<string> =>
        inTransaction(async (operations, transaction) => {
          await begin(transaction);
          // After the first time of a form that is sent twice, nothing is left to undo.
          if (form.get('_plan') !== digestOf(plan)) throw new PlanChanged();
          if (!plan.needsPassword) for (const { guard } of plan.deletions) await guard?.(transaction);
          const of = (action: string): Step[] => possible.filter((step) => step.action === action);
          // What was deleted comes first, in its order, so that others can refer to it; what was added last, from the end.
          const groups = [of('delete'), of('update'), of('create').reverse()];
          await checkedAtEnd(transaction, async () => {
            for (const group of groups)
              await reverseAll({ ...context, caller }, operations, transaction, group);
          });
          if (possible.some(({ reason }) => reason !== undefined)) throw new Rollback();
          await assertSession(context);
          await end(transaction, text);
          return text;
        });
      try {
        const done = await onceOnly(context, form, undoAll);
        const value = caller.origin?.batch ?? '';
        return redirectDone(
          context,
          links.list(history.name, new LinkParameters([{ name: 'batch', value }])),
          done,
        );
      } catch (error) {
        if (error instanceof PlanChanged) return refuse(t('undoChanged'));
        if (!(error instanceof Rollback)) throw error;
        for (const { id, reason } of possible) if (reason !== undefined) refused.set(id, reason);
        known = undefined;
        return refuse(t('databaseRefusesSome'));
      }
    },
  };
}
