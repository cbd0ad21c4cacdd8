// Actions of the registry: what their form and their confirmation ask for, and how they run in one transaction.
import { CHECK_AT_ONCE, type Transaction } from '../../db/connection/transactions.ts';
import { ClientGone } from '../../db/lanes/requester.ts';
import type { Column } from '../../db/schema/model.ts';
import { addError, errorOf, notFound, Problem, type FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import { messageOf } from '../../messages.ts';
import type { Selection } from '../../query/selection.ts';
import { ADMIN_AREA, inBatch, type Caller } from '../../resources/access/access.ts';
import { recordActions, type AdminView, type OfferedAction } from '../../resources/access/admin-view.ts';
import {
  isActionMessage,
  type ActionOperations,
  type ActionRecord,
} from '../../resources/definition/custom-action.ts';
import type { AdminAction } from '../../resources/definition/resource.ts';
import { parseField } from '../../resources/records/checked-body.ts';
import { parseJsonFields, type JsonFields } from '../../resources/records/json-fields.ts';
import type { Operations } from '../../resources/records/operations.ts';
import { findRecord } from '../../resources/records/read-record.ts';
import { boundedForm, FormField, valuesOf, type TypedValues } from '../fields/form-field.ts';
import {
  fieldRenderers,
  isRecordKey,
  labelIn,
  referencesIn,
  relatedOf,
  showLookup,
  withKeys,
} from '../fields/references.ts';
import { bodyOf } from '../form/form-record.ts';
import { runAction, showAction, type Action, type ActionPage } from '../session/action.ts';
import { assertSession } from '../session/assert-session.ts';
import {
  hasPrivilegeColumn,
  showsUsers,
  type Needs,
  type Refusal,
} from '../session/password-confirmation.ts';
import type { RecordContext, ResourceContext } from '../web/admin-context.ts';
import { links, selectionFacts, type Link } from '../web/admin-links.ts';
import { listQuery, redirectDone, redirectFailed } from '../web/admin-request.ts';
import { nothing, shortened, shownValue } from '../web/display-text.ts';
import { createForm, type Form } from '../web/form-data.ts';
import { phrase, t } from '../web/language.ts';
import { hiddenInputs, html, type Content, type Html } from '../web/html.ts';
import { listCrumb, recordCrumb, type Crumb } from '../web/layout.ts';
import { queryRows, withTimeout } from '../web/panel-data.ts';
import { onceOnly, SubmittedBefore, submitOnceField } from '../web/submit-once.ts';
import {
  hiddenChoice,
  listUrl,
  selectedRecords,
  selectionChange,
  type BulkContext,
} from './chosen-records.ts';
import { reasonOf } from './undo.ts';

/** Maximum characters of a message. */
const MAX_TEXT = 500;
/** Milliseconds that an action may take, as long as one of its statements. */
const TIMEOUT = 5 * 60_000;

/** What an action is run on: a record, or the selected records of a list. */
interface Target {
  readonly selection: Selection;
  /** The label of a record; undefined for a selection, which has a number of records. */
  readonly label?: string;
  readonly crumbs: readonly Crumb[];
  readonly address: string;
  readonly back: Link;
  /** The records as hidden fields, and as people see them. */
  readonly hidden: Content;
  readonly shown: (count: number) => Promise<Content>;
  /** How the records have changed since the form was made; undefined if they have not. */
  readonly changeSince: (form: Form) => Promise<string | undefined>;
  /** Where the action leads. */
  readonly after: () => Promise<string>;
}

/** The fields of an action. */
export const fieldsOfAction = ({ fields }: OfferedAction): readonly FormField[] =>
  fields.map((column) => new FormField(column, true));

const ACTION_OF = { create: 'add', update: 'change', remove: 'delete' } as const satisfies Record<
  string,
  AdminAction
>;

/** What an action changes, with the rights of the person who runs it. */
interface Writing {
  readonly operations: ActionOperations;
  /** The records that were written. */
  readonly written: ReadonlySet<string>;
}

function writingAs(
  context: ResourceContext,
  caller: Caller,
  operations: Operations,
  { run }: Transaction,
  inTurn: <T>(work: () => Promise<T>) => Promise<T>,
): Writing {
  const written = new Set<string>();
  const bodyOfValues = (values: ActionRecord): JsonFields => parseJsonFields(JSON.stringify(values));
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
  return {
    written,
    operations: {
      read: (model, id) =>
        inTurn(async () => {
          const found = await findRecord({ run }, viewOf(model), String(id));
          return found && recordOf(found);
        }),
      create: (model, values) =>
        inTurn(async () => {
          const view = viewOf(model, ACTION_OF.create);
          const made = await operations.create(view, bodyOfValues(values), caller, true);
          written.add(`${model} ${made.id}`);
          return recordOf(made);
        }),
      update: (model, id, values) =>
        inTurn(async () => {
          const view = viewOf(model, ACTION_OF.update);
          const changed = await operations.update(
            view,
            String(id),
            bodyOfValues(values),
            caller,
            undefined,
            true,
          );
          written.add(`${model} ${id}`);
          return recordOf(changed);
        }),
      remove: (model, id) =>
        inTurn(async () => {
          await operations.remove(viewOf(model, ACTION_OF.remove), String(id), caller, undefined);
          written.add(`${model} ${id}`);
        }),
    },
  };
}

/** Thrown to end the transaction of an action, for what the page says then. */
class Refused extends Error {
  readonly refusal: Refusal;
  constructor(refusal: Refusal) {
    super('the action was refused');
    this.refusal = refusal;
  }
}

/** Why an action did not run, as its page shows it; undefined for a fault of the action. */
function refusalFor(error: unknown, fields: readonly FormField[]): Refusal | undefined {
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
  { title, run }: OfferedAction,
  values: ActionRecord,
  records: readonly ActionRecord[],
  operationsIn: Operations,
  transaction: Transaction,
  caller: Caller,
): Promise<string> {
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
  const { operations, written } = writingAs(context, caller, operationsIn, transaction, inTurn);
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
      operations,
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
      if (!column.nullable && !column.hasDefault) addError(errors, name, messageOf('required'));
      continue;
    }
    const { fault } = json.value === null ? {} : parseField(json, column);
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
  const [references] = await referencesIn(context, [{ typed }]);
  const shown = (column: Column, text: string): Content => {
    const label = labelIn(references?.get(column), text);
    return label === undefined ? shownValue(column, text, 300) : shortened(label);
  };
  return (
    fields.length > 0 &&
    html`<dl class="facts">
      ${fields.map(({ column, label }) => {
        const text = typed.get(column)?.text ?? '';
        return html`<div>
          <dt>${label}</dt>
          <dd>${text === '' ? nothing() : shown(column, text)}</dd>
        </div>`;
      })}
    </dl>`
  );
}

/** Shows the page for what the form lacks, or runs the action. */
async function answerAction(
  context: ResourceContext,
  action: OfferedAction,
  target: Target,
  form: Form,
): Promise<Reply> {
  const { bulk, resource, report, inTransaction, settings } = context;
  const { name, title, confirm } = action;
  const { selection } = target;
  const fields = fieldsOfAction(action);
  const isSent = form.get('_value') !== undefined;
  const asksFirst = fields.length > 0;
  const asksAgain = confirm !== undefined || !asksFirst;
  const caller = inBatch(context.caller);
  let typed = valuesOf(fields, (field) => (isSent ? field.read(form) : field.initial(undefined)));

  const pageWith = async (content: Content, isLast: boolean): Promise<ActionPage | Reply> => {
    const count = await bulk.count(resource, selection);
    if (count === 0) return redirectFailed(context, target.back.href, t('noRecordsToChange'));
    const shown = await target.shown(count);
    const what = t('records', { count });
    return {
      crumbs: [...target.crumbs, title],
      title: t(isLast && asksAgain ? 'runActionOn' : 'actionOn', { title, what: target.label ?? what }),
      address: target.address,
      back: target.back,
      isUnsaved: asksFirst,
      labels: Object.fromEntries(fields.map((field) => [field.name, field.label])),
      button: isLast ? title : t('continue'),
      fields: html`${target.hidden}
        ${isLast && html`${submitOnceField()}<input type="hidden" name="_expected" value="${count}" /><input type="hidden" name="_confirm" value="1" />`}
        <input type="hidden" name="_value" value="1" />
        ${content} ${isLast && asksAgain && html`<p class="lead">${confirm ?? t('runsOn', { what })}</p>`}`,
      around: (inner) => html`${inner} ${shown}`,
    };
  };
  const needs = (): Needs => ({
    password: hasPrivilegeColumn(context, resource.model.columns, false) && t('requiredToChangeUsers'),
    code: showsUsers(context),
  });
  let values: ActionRecord = {};

  async function run(): Promise<Reply> {
    const expected = Number(form.get('_expected'));
    const once = await onceOnly(context, form);
    const done = async (text: string): Promise<Reply> => redirectDone(context, await target.after(), text);
    let text = '';
    try {
      await inTransaction(async (operations, transaction) => {
        await once.begin(transaction);
        const source = await bulk.readAll(transaction, resource, selection, {
          expected,
          maxBytes: settings.maxPage,
        });
        const records = JSON.parse(source) as ActionRecord[];
        // An operation explains the error of a deferred constraint, which the commit would throw after it.
        await transaction.send(CHECK_AT_ONCE);
        try {
          text = await runIn(context, action, values, records, operations, transaction, caller);
        } catch (error) {
          const refusal = refusalFor(error, fields);
          throw refusal ? new Refused(refusal) : error;
        }
        await assertSession(context);
        const facts = { resource: resource.name, action: name, records: records.length };
        await report('action', { ...facts, ...selectionFacts(selection) }, transaction);
        await once.end(transaction, text);
      });
      return await done(text);
    } catch (error) {
      if (error instanceof SubmittedBefore) return done(error.result);
      if (error instanceof Refused)
        return showAction(context, asksFirst ? asking : confirming, error.refusal);
      if (!(error instanceof Problem) || ![409, 413].includes(error.status)) throw error;
      const notice = t('nothingWasChanged', { change: (await target.changeSince(form)) ?? error.message });
      const { status } = error;
      return showAction(context, asksAgain ? confirming : asking, { errors: {}, notice, status });
    }
  }

  const asking: Action = {
    async page({ errors }) {
      const [row] = await fieldRenderers(context, [{ typed }]);
      const rows = fields.map((field) => row?.(field, errors, form.get('_preview')));
      const isMarked = fields.some((field) => field.isRequired(undefined));
      const marked =
        isMarked &&
        html`<p class="hint">${phrase('fieldsMarked', { mark: html`<span class="required">*</span>` })}</p>`;
      return pageWith(html`${marked} ${rows}`, !asksAgain);
    },
    needs: () => (asksAgain ? {} : needs()),
    run,
  };
  const confirming: Action = {
    async page() {
      const carried = fields.flatMap((field) => {
        const value = typed.get(field.column);
        return value ? field.carried(value) : [];
      });
      return pageWith(
        html`${await hiddenInputs(carried)} ${await shownValues(context, fields, typed)}`,
        true,
      );
    },
    needs,
    run,
  };

  const named = (key: string): FormField | undefined => fields.find((field) => field.name === form.get(key));
  const lookup = named('_lookup');
  if (lookup) return showLookup(context, lookup, form, [...target.crumbs, title]);
  const [chosenField, chosen] = [named('_for'), form.get('_choose')];
  if (chosenField && chosen !== undefined)
    typed = new Map(typed).set(chosenField.column, { text: chosen, isNull: chosen === '' });
  const isAsked = isSent && chosen === undefined && form.get('_preview') === undefined;
  if (asksFirst && !isAsked) return showAction(context, asking);
  const [keyed] = await withKeys(context, [{ typed }]);
  typed = keyed?.typed ?? typed;
  const sent = await valuesFor(context, fields, typed);
  values = sent.values;
  if (Object.keys(sent.errors).length > 0)
    return showAction(context, asking, { errors: sent.errors, status: 400 });
  if (form.get('_confirm') === undefined) return showAction(context, asksAgain ? confirming : asking);
  return runAction(context, asksAgain ? confirming : asking, form);
}

/** Runs an action on the selected records of a list. */
export async function actOnSelection(
  context: BulkContext,
  action: OfferedAction,
  form: Form,
): Promise<Reply> {
  const { resource, choice } = context;
  const list = listUrl(context);
  return answerAction(
    context,
    action,
    {
      selection: choice.selection,
      crumbs: [{ text: resource.title, href: list }],
      address: links.action(resource.name, 'bulk'),
      back: { text: t('backToList'), href: list },
      hidden: await hiddenChoice(context, nameInMenu(action)),
      shown: (count) => selectedRecords(context, count),
      changeSince: (sent) => selectionChange(context, sent),
      after: () => Promise.resolve(list),
    },
    form,
  );
}

/** The name of an action in the menu of a list, beside those that every list has. */
export const nameInMenu = ({ name }: OfferedAction): string => `do.${name}`;

/** Runs an action on a record. @param sent the form of its page, when that is sent */
export async function actOnRecord(context: RecordContext, sent?: Form): Promise<Reply> {
  const { resource, id, browsing, request } = context;
  const asked = sent ? sent.get('_action') : new URLSearchParams(request.query).get('name');
  const action = recordActions(resource).find(({ name }) => name === asked);
  if (!action) throw notFound(t('noAction'));
  const form = boundedForm(sent ?? createForm([]), fieldsOfAction(action));
  const list = listQuery(context, sent);
  const record = await browsing.preview(resource, id);
  const crumb = recordCrumb(resource, record, list);
  const target: Target = {
    selection: { query: '', search: '', ids: [id] },
    label: shortened(record.label, 80),
    crumbs: [listCrumb(resource, list), crumb],
    address: links.part(resource.name, record.id, 'action'),
    back: { ...crumb, text: t('backToRecord') },
    hidden: html`<input type="hidden" name="_action" value="${action.name}" />
      ${list !== undefined && html`<input type="hidden" name="_list" value="${list}" />`}`,
    shown: () => Promise.resolve(undefined),
    changeSince: () => Promise.resolve(undefined),
    // The action may have deleted the record.
    after: async () =>
      (await context.operations.version(resource, id)) === undefined
        ? links.back(resource.name, list)
        : crumb.href,
  };
  return answerAction(context, action, target, form);
}
