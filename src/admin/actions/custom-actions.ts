// Actions of the registry: what their form and their confirmation ask for, and how they run in one transaction.
import { isPresent, presentMoment } from '../../db/types/dates.ts';
import type { Column } from '../../db/schema/model.ts';
import { CHECK_AT_ONCE, type Transaction } from '../../db/connection/transactions.ts';
import { ClientGone } from '../../db/lanes/requester.ts';
import { addError, errorOf, notFound, Problem, type FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import { messageOf } from '../../messages.ts';
import { ADMIN_AREA, type Caller } from '../../resources/access/access.ts';
import { recordActions, type AdminView, type OfferedAction } from '../../resources/access/admin-view.ts';
import {
  isActionMessage,
  type ActionOperations,
  type ActionRecord,
} from '../../resources/definition/custom-action.ts';
import type { AdminAction } from '../../resources/definition/resource.ts';
import { exactJson } from '../../resources/definition/validators.ts';
import { parseField } from '../../resources/records/checked-body.ts';
import { parseJsonFields, type JsonFields } from '../../resources/records/json-fields.ts';
import type { Operations } from '../../resources/records/operations.ts';
import { findRecord } from '../../resources/records/read-record.ts';
import { boundedForm, FormField, type TypedValues } from '../fields/form-field.ts';
import { isRecordKey, relatedOf } from '../fields/references.ts';
import { bodyOf } from '../form/form-record.ts';
import { assertSession } from '../session/assert-session.ts';
import {
  changesLogin,
  hasPrivilegeColumn,
  showsUsers,
  type Refusal,
} from '../session/password-confirmation.ts';
import type { RecordContext, ResourceContext } from '../web/admin-context.ts';
import { selectionFacts } from '../web/admin-links.ts';
import { listQuery } from '../web/admin-request.ts';
import { createForm, type Form } from '../web/form-data.ts';
import { phrase, t } from '../web/language.ts';
import { html, type Html } from '../web/html.ts';
import { queryRows, withTimeout } from '../web/panel-data.ts';
import { answerSteps, valuesWithLabels, type ActionSteps } from './action-steps.ts';
import { recordTarget, selectionTarget, type BulkContext, type Target } from './target.ts';
import { reasonOf } from './undo.ts';

/** Maximum characters of a message. */
const MAX_TEXT = 500;
/** Milliseconds that an action may take, as long as one of its statements. */
const TIMEOUT = 5 * 60_000;

/** The fields of an action. */
export const fieldsOfAction = ({ fields }: OfferedAction): readonly FormField[] =>
  fields.map((column) => new FormField(column, true));

/** Runs one piece of work after the other. */
type InTurn = <T>(work: () => Promise<T>) => Promise<T>;

/** Whether the page of an action asks for the password, so that it may change users. */
const asksForPassword = (context: ResourceContext, { changesUsers = false }: OfferedAction): boolean =>
  changesUsers || hasPrivilegeColumn(context, context.resource.model.columns, false);

/** What an action may change: with the rights of the person who runs it, one operation after the other. */
function operationsAs(
  context: ResourceContext,
  action: OfferedAction,
  caller: Caller,
  operations: Operations,
  { run }: Transaction,
  inTurn: InTurn,
  written: Set<string>,
): ActionOperations {
  const bodyOfValues = (values: ActionRecord): JsonFields => parseJsonFields(exactJson(values));
  const recordOf = ({ json }: { readonly json: Buffer }): ActionRecord =>
    JSON.parse(String(json)) as ActionRecord;
  /** @throws Error for a name that is in no registry; Problem 403 */
  function viewOf(model: string, action?: AdminAction): AdminView {
    const view = context.resources.get(model);
    if (!view && !context.resourcesOf(ADMIN_AREA).has(model))
      throw new Error(`the admin area has no model ${JSON.stringify(model)}`);
    if (!view || (action !== undefined && !view.may.has(action)))
      throw new Problem(403, messageOf('rolesForbid'));
    return view;
  }
  const isConfirmed = asksForPassword(context, action);
  /** @throws Error where the registry does not say that the action changes users */
  function assertConfirmed(changesUsers: boolean): void {
    if (changesUsers && !isConfirmed)
      throw new Error(`the action ${action.name} needs changesUsers: true, because it changes users`);
  }
  const setsLogin = (resource: AdminView, values: ActionRecord): boolean =>
    changesLogin(
      { ...context, resource },
      resource.model.columns.filter(({ key, name }) => key in values || name in values),
    );
  return {
    read: (model, id) =>
      inTurn(async () => {
        const found = await findRecord({ run }, viewOf(model), String(id));
        return found && recordOf(found);
      }),
    create: (model, values) =>
      inTurn(async () => {
        const view = viewOf(model, 'add');
        assertConfirmed(setsLogin(view, values));
        const made = await operations.create(view, bodyOfValues(values), caller, true);
        written.add(`${model} ${made.id}`);
        return recordOf(made);
      }),
    update: (model, id, values) =>
      inTurn(async () => {
        const [view, body] = [viewOf(model, 'change'), bodyOfValues(values)];
        assertConfirmed(setsLogin(view, values));
        const changed = await operations.update(view, String(id), body, caller, undefined, true);
        written.add(`${model} ${id}`);
        return recordOf(changed);
      }),
    remove: (model, id) =>
      inTurn(async () => {
        const view = viewOf(model, 'delete');
        const selection = { query: '', search: '', ids: [String(id)] };
        assertConfirmed(
          !isConfirmed && (await context.bulk.deletesUsers(view, selection, context.settings.userModel)),
        );
        await operations.remove(view, String(id), caller, undefined);
        written.add(`${model} ${id}`);
      }),
  };
}

/** Why an action did not run, as its page shows it; undefined for a fault of the action. */
function refusalOf(error: unknown, fields: readonly FormField[]): Refusal | undefined {
  if (isActionMessage(error)) {
    const { message, field } = error;
    const named = fields.find(({ column, name }) => field === column.name || field === name);
    return named
      ? { errors: errorOf(named.name, message), status: 400 }
      : { errors: {}, notice: message, status: 400 };
  }
  if (!(error instanceof Problem) || ![400, 403, 404, 409, 412].includes(error.status)) return undefined;
  return {
    errors: {},
    notice: t('nothingChangedBecause', { reason: reasonOf(error) }),
    status: error.status,
  };
}

/** Runs the function of an action in a transaction. @returns the message that follows */
async function runIn(
  context: ResourceContext,
  action: OfferedAction,
  values: ActionRecord,
  records: readonly ActionRecord[],
  operationsIn: Operations,
  transaction: Transaction,
  caller: Caller,
): Promise<string> {
  const { title, run } = action;
  const ending = new AbortController();
  const { signal } = ending;
  let last: Promise<unknown> = Promise.resolve();
  let failure: { readonly error: unknown } | undefined;
  /** One after the other, because an error of one ends the transaction of all. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = last.then(() => {
      signal.throwIfAborted();
      return work();
    });
    last = turn.catch((error: unknown) => (failure ??= { error }));
    return turn;
  }
  const written = new Set<string>();
  const ended = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error));
  });
  ended.catch(() => undefined);
  const stopListening = context.request.requester.onGone(() => ending.abort(new ClientGone()));
  const { id, name, admin, roles } = caller;
  // Inside a promise, because a function that is not async may throw synchronously.
  const running = Promise.resolve().then(() =>
    run({
      records,
      values,
      operations: operationsAs(context, action, caller, operationsIn, transaction, inTurn, written),
      transaction: (statement, parameters = []) =>
        inTurn(() => queryRows(transaction, statement, parameters)),
      caller: { id, name, admin, roles },
      signal,
    }),
  );
  try {
    const text = await withTimeout(TIMEOUT, Promise.race([running, ended]));
    // What the function did not wait for belongs to it, and what was refused is not done, also if the function caught the error.
    await last;
    if (failure) throw failure.error;
    if (typeof text === 'string' && text !== '') return text.slice(0, MAX_TEXT);
    return written.size === 0
      ? t('actionDone', { title })
      : t('actionChanged', { title, count: written.size });
  } finally {
    stopListening();
    ending.abort(new Error('the action has ended'));
  }
}

/** What an empty field means whose default is `now`. */
const presentOf = ({ initial, type }: Column, { settings }: ResourceContext): string | undefined =>
  isPresent(initial, type) ? presentMoment(type.input.control, settings.timeZone) : undefined;

/** The values of the fields as JSON by their names, and the errors of those that cannot be used. */
async function valuesFor(
  context: ResourceContext,
  fields: readonly FormField[],
  typed: TypedValues,
): Promise<{ readonly values: ActionRecord; readonly errors: FieldErrors }> {
  const { fields: body, errors } = await bodyOf({ fields, typed });
  const values: Record<string, unknown> = {};
  for (const { column, name } of fields) {
    if (Object.hasOwn(errors, name)) continue;
    const json = body.get(column.key);
    if (!json) {
      const moment = presentOf(column, context);
      if (moment !== undefined) values[column.name] = moment;
      else if (!column.nullable) addError(errors, name, messageOf('required'));
      continue;
    }
    const { fault } = json.value === null ? {} : parseField(json, column, context.resource.maxValue);
    const related = relatedOf(column, context);
    if (fault !== undefined) addError(errors, name, fault);
    else if (
      related &&
      json.value !== null &&
      !(await isRecordKey(context, related, typed.get(column)?.text ?? ''))
    )
      addError(errors, name, messageOf('noSuchRecord'));
    else values[column.name] = JSON.parse(json.source) as unknown;
  }
  return { values, errors };
}

/** The typed values as the confirmation page shows them. */
async function shownValues(
  context: ResourceContext,
  fields: readonly FormField[],
  typed: TypedValues,
): Promise<Html | false> {
  const values = fields.map(({ column, label }) => {
    const { text = '', isNull = true } = typed.get(column) ?? {};
    return { column, label, text: text === '' && isNull ? (presentOf(column, context) ?? null) : text };
  });
  const shown = await valuesWithLabels(
    context,
    values.map(({ column, text }) => [column, text]),
  );
  return (
    fields.length > 0 &&
    html`<dl class="facts">
      ${values.map(
        ({ column, label, text }) =>
          html`<div>
            <dt>${label}</dt>
            <dd>${shown(column, text, 300)}</dd>
          </div>`,
      )}
    </dl>`
  );
}

/** Shows the page for what the form lacks, or runs the action. */
function answerAction(
  context: ResourceContext,
  action: OfferedAction,
  target: Target,
  form: Form,
): Promise<Reply> {
  const { bulk, resource, report, inTransaction, settings } = context;
  const { name, title, confirm } = action;
  const { selection, label } = target;
  const fields = fieldsOfAction(action);
  const asksAgain = confirm !== undefined || fields.length === 0;
  let values: ActionRecord = {};
  let refused: Refusal | undefined;

  const steps: ActionSteps = {
    name: label === undefined ? nameInMenu(action) : name,
    crumb: title,
    fields,
    initial: (field) => field.initial(undefined),
    title: (count, isLast) =>
      t(isLast && asksAgain ? 'runActionOn' : 'actionOn', { title, what: label ?? t('records', { count }) }),
    button: () => title,

    form(fieldOf) {
      const mark = html`<span class="required">*</span>`;
      const isMarked = fields.some((field) => field.isRequired(undefined));
      return html`${isMarked && html`<p class="hint">${phrase('fieldsMarked', { mark })}</p>`}
      ${fields.map(fieldOf)}`;
    },

    asksAgain,

    confirmation: async (typed, what) => ({
      question: html`${await shownValues(context, fields, typed)}
        <p class="lead">${confirm ?? t('runsOn', { what })}</p>`,
    }),

    carried: (typed) =>
      fields.flatMap((field) => {
        const value = typed.get(field.column);
        return value ? field.carried(value) : [];
      }),

    async check(typed) {
      const sent = await valuesFor(context, fields, typed);
      values = sent.values;
      return Object.keys(sent.errors).length > 0 ? { errors: sent.errors, status: 400 } : undefined;
    },

    needs: () => ({
      password: asksForPassword(context, action) && t('requiredToChangeUsers'),
      code: action.changesUsers === true || showsUsers(context),
    }),

    run: ({ begin, end }, expected, caller) =>
      inTransaction(async (operations, transaction) => {
        await begin(transaction);
        const limits = { expected, maxBytes: settings.maxPage };
        const source = await bulk.readAll(transaction, resource, selection, limits);
        const records = JSON.parse(source) as ActionRecord[];
        // An operation explains the error of a deferred constraint, which the commit would throw after it.
        await transaction.send(CHECK_AT_ONCE);
        let text: string;
        try {
          text = await runIn(context, action, values, records, operations, transaction, caller);
        } catch (error) {
          refused = refusalOf(error, fields);
          throw error;
        }
        await assertSession(context);
        const facts = { resource: resource.name, action: name, records: records.length };
        await report('action', { ...facts, ...selectionFacts(selection) }, transaction);
        await end(transaction, text);
        return text;
      }),

    refusalFor(error) {
      if (refused) return refused;
      if (!(error instanceof Problem) || ![409, 413].includes(error.status)) throw error;
      const { message, status } = error;
      return { errors: {}, notice: t('nothingWasChanged', { change: message }), status };
    },
  };
  return answerSteps(context, target, steps, form);
}

/** Runs an action on the selected records of a list. */
export const actOnSelection = (context: BulkContext, action: OfferedAction, form: Form): Promise<Reply> =>
  answerAction(context, action, selectionTarget(context), form);

/** The name of an action in the menu of a list, beside those that every list has. */
export const nameInMenu = ({ name }: OfferedAction): string => `do.${name}`;

/** Runs an action on a record. @param sent the form of its page, when that is sent */
export async function actOnRecord(context: RecordContext, sent?: Form): Promise<Reply> {
  const { resource, id, browsing, request } = context;
  const asked = sent ? sent.get('_action') : new URLSearchParams(request.query).get('name');
  const action = recordActions(resource).find(({ name }) => name === asked);
  if (!action) throw notFound(t('noAction'));
  const form = boundedForm(sent ?? createForm([]), fieldsOfAction(action));
  const record = await browsing.preview(resource, id);
  const target = recordTarget(context, record, 'action', listQuery(context, sent), sent);
  return answerAction(context, action, target, form);
}
