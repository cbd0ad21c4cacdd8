// Changes the selected records of a list: sets columns, and replaces a text inside of others. One page asks, one shows what changes.
import type { Column } from '../../db/schema/model.ts';
import { addError, notFound, type FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import { messageOf } from '../../messages.ts';
import type { ChangePreview } from '../../query/statements/bulk-statements.ts';
import type { Change } from '../../query/statements/write-plan.ts';
import { isReplaceable, type BulkChange } from '../../resources/records/bulk-operations.ts';
import type { JsonField } from '../../resources/records/json-fields.ts';
import {
  fieldsOf,
  mustHaveText,
  textsOf,
  valuesOf,
  type FormField,
  type TypedValues,
} from '../fields/form-field.ts';
import { loadOptional } from '../fields/optional-part.ts';
import { fieldRenderers, relatedOf, showLookup, withKeys } from '../fields/references.ts';
import { refusalOf } from '../form/save.ts';
import { formReply, runAction, showAction, type Action } from '../session/action.ts';
import {
  addLockOut,
  isUserModel,
  hasPrivilegeColumn,
  showsUsers,
  type Refusal,
} from '../session/password-confirmation.ts';
import { links } from '../web/admin-links.ts';
import { redirectDone, redirectFailed } from '../web/admin-request.ts';
import { emptyText, nothing, shortened, shownValue } from '../web/display-text.ts';
import { phrase, t } from '../web/language.ts';
import { createForm, type Form } from '../web/form-data.ts';
import { attributes, hiddenInputs, html, type Content, type Html } from '../web/html.ts';
import { labelsFor } from '../web/record-labels.ts';
import { onceOnly, SubmittedBefore, submitOnceField } from '../web/submit-once.ts';
import { controlAttributes, labeledField, messagesOf, table } from '../web/widgets.ts';
import {
  endOf,
  hiddenChoice,
  listUrl,
  selectedRecords,
  selectionChange,
  type BulkContext,
} from './chosen-records.ts';

/** What the form asks for. Its fields `_column` and `_in` name the columns, `_replace` and `_with` the texts. */
interface Asked {
  /** All fields. */
  readonly fields: readonly FormField[];
  /** The fields of the columns to set. */
  readonly set: readonly FormField[];
  /** The values of all fields. */
  readonly typed: TypedValues;
  /** The fields of the columns in which the text `find` is replaced. */
  readonly replaced: readonly FormField[];
  readonly find: string;
  readonly by: string;
  /** The name of the field whose text is shown as it will look. */
  readonly previewed: string | undefined;
}

const replaceLabels = () => ({ _replace: t('find'), _with: t('replaceWith') });

const EMPTY_FORM = createForm([]);

const isReplacing = ({ find, by }: Asked): boolean => find !== '' || by !== '';

/** The fields of all columns that change. */
const changed = (asked: Asked): readonly FormField[] => [
  ...asked.set,
  ...(isReplacing(asked) ? asked.replaced : []),
];

const replaceable = ({ resource }: BulkContext, fields: readonly FormField[]): readonly FormField[] =>
  fields.filter(({ column }) => isReplaceable(resource, column));

/** What the pages have in common. */
const frameOf = (context: BulkContext) => ({
  crumbs: [{ text: context.resource.title, href: listUrl(context) }, t('change')],
  address: links.action(context.resource.name, 'bulk'),
  back: { text: t('backToList'), href: listUrl(context) },
  isUnsaved: true,
});

const countSelected = ({ bulk, resource, choice }: BulkContext): Promise<number> =>
  bulk.count(resource, choice.selection);

/** The form as it was sent, or an empty one. @throws Problem 404 for a column that cannot be set */
function askedIn(context: BulkContext, form: Form, fields: readonly FormField[]): Asked {
  const isSent = form.get('_value') !== undefined;
  const named = (key: string, among: readonly FormField[]): FormField[] => {
    const names = form.all(key);
    if (!names.every((name) => among.some((field) => field.name === name)))
      throw notFound(t('columnNotSettable'));
    return among.filter(({ name }) => names.includes(name));
  };
  const texts = replaceable(context, fields);
  return {
    fields,
    set: named('_column', fields),
    typed: valuesOf(fields, (field) => {
      const { column } = field;
      // With choices, NULL means no choice yet: the empty text may not be one.
      const isNull = column.nullable || textsOf(column) !== undefined;
      return isSent ? field.read(form) : { text: '', isNull };
    }),
    replaced: !isSent && texts.length === 1 ? texts : named('_in', texts),
    find: form.get('_replace') ?? '',
    by: form.get('_with') ?? '',
    previewed: form.get('_preview'),
  };
}

/** The part of the form that replaces a text. */
function replacePart(context: BulkContext, { replaced, ...asked }: Asked, errors: FieldErrors): Html | false {
  const fields = replaceable(context, asked.fields);
  if (fields.length === 0) return false;
  const input = (name: keyof ReturnType<typeof replaceLabels>, text: string, hint?: string): Html => {
    const parts = { errors: messagesOf(errors, name), hint };
    const id = `field-${name}`;
    const control = attributes({ ...controlAttributes(id, name, parts), type: 'text', value: text });
    return labeledField(id, replaceLabels()[name], html`<input${control} />`, parts);
  };
  return html`<fieldset>
    <legend>${t('findAndReplace')}</legend>
    ${input('_replace', asked.find, t('findHint'))} ${input('_with', asked.by)}
    <div class="field" role="group" aria-label="${t('columnsToSearch')}">
      <span class="label">${t('inColumns')}</span>
      <div class="control">
        ${fields.map((field) => {
          const box = attributes({
            name: '_in',
            value: field.name,
            checked: replaced.includes(field),
            'aria-label': t('inColumn', { label: field.label }),
          });
          return html`<label class="check"><input type="checkbox" ${box} /> ${field.label}</label> `;
        })}
      </div>
    </div>
  </fieldset>`;
}

/** Asks for the columns and their values. */
async function changePage(context: BulkContext, asked: Asked, refusal?: Refusal): Promise<Reply> {
  const count = await countSelected(context);
  const records = await selectedRecords(context, count);
  const { fields } = asked;
  const [row] = await fieldRenderers(context, [asked]);
  const errors: FieldErrors = {};
  for (const [key, messages] of Object.entries(refusal?.errors ?? {})) {
    const replaced = isReplacing(asked) && asked.replaced.find(({ name }) => name === key);
    for (const text of messages)
      addError(errors, replaced ? '_replace' : key, replaced ? `${replaced.label}: ${text}` : text);
  }
  const page = {
    ...frameOf(context),
    title: t('changeRecords', { count }),
    fields: html`${await hiddenChoice(context, 'set')}
      <input type="hidden" name="_value" value="1" />
      <p class="hint">${t('tickColumns')}</p>
      ${fields.map((field) => {
        const { name, label } = field;
        const box = attributes({
          name: '_column',
          value: name,
          checked: asked.set.includes(field),
          'aria-label': t('setColumn', { label }),
        });
        return html`<div class="settable">
          <label class="check"><input type="checkbox" ${box} /> ${t('set')}</label>
          ${row?.(field, errors, asked.previewed)}
        </div>`;
      })}
      ${replacePart(context, asked, errors)}`,
    button: t('continue'),
    labels: { ...Object.fromEntries(fields.map(({ name, label }) => [name, label])), ...replaceLabels() },
    around: (form: Html) => html`${form} ${records}`,
  };
  return formReply(context, page, refusal && { ...refusal, errors });
}

/** A text in which others are replaced, with both marked. */
const markedText = (text: string, find: string, by: string): Html =>
  html`${text.split(find).map((part, at) => html`${at > 0 && html`<del>${find}</del>${by !== '' && html`<ins>${by}</ins>`}`}${part}`)}`;

/** What a change would touch, for a page. */
interface Preview {
  readonly changes: readonly Change[];
  /** Undefined if it could not be read in time. */
  readonly found: ChangePreview | undefined;
  /** The label of a selected record. */
  readonly nameOf: (id: string) => string;
  /** A value of a column. A foreign key shows the label of its record. */
  readonly shown: (column: Column, text: string | null, max: number) => Html | string;
}

async function previewOf(context: BulkContext, changes: readonly Change[]): Promise<Preview> {
  const { browsing, bulk, resource, choice } = context;
  const reading = bulk.preview(resource, choice.selection, changes);
  const found = await loadOptional(context, `the preview of a change of ${resource.name}`, reading);
  const values = changes.flatMap(({ column, value }, index) => {
    const related = relatedOf(column, context);
    const before = found?.records.map((record) => record.before[index]) ?? [];
    return [value, ...before].map((text) => [related, text] as const);
  });
  const keys = found?.records.map(({ id }) => [resource, id] as const) ?? [];
  const labels = await labelsFor([...keys, ...values], (...read) => browsing.labelsOf(...read));
  return {
    changes,
    found,
    nameOf: (id) => shortened(labels(resource, id) ?? `#${id}`),
    shown: (column, text, max) => {
      if (text === null) return nothing();
      if (text === '') return emptyText();
      if (!column.references) return shownValue(column, text, max);
      return shortened(labels(relatedOf(column, context), text) ?? `#${text}`);
    },
  };
}

/** The first records that change, with their values before and after. */
function previewTable({ resource }: BulkContext, { changes, found, nameOf, shown }: Preview): Html | false {
  if (!found || found.count === 0) return false;
  const { count, records } = found;
  const cell = ({ column, value, find }: Change, before: string | null): Content => {
    if (find !== undefined && before !== null) return markedText(before, find, value ?? '');
    const [old, next] = [before, find === undefined ? value : null].map((text) => shown(column, text, 100));
    return before === value || find !== undefined ? old : html`<del>${old}</del> <ins>${next}</ins>`;
  };
  const all = t('recordsToChange', { count });
  return html`<section>
    <h2>${count > records.length ? t('firstOf', { shown: records.length, all }) : all}</h2>
    ${table(
      [t('record'), ...changes.map(({ column }) => column.title)],
      records.map(({ id, before }) => [
        html`<a href="${links.record(resource.name, id)}">${nameOf(id)}</a>`,
        ...changes.map((change, index) => cell(change, before[index] ?? null)),
      ]),
    )}
  </section>`;
}

/** A text as it is, but not of any length. */
const quoted = (text: string): string =>
  t('quoted', { text: text.length > 100 ? `${text.slice(0, 100).toWellFormed()}…` : text });

/** What the confirmation page says of the change. */
function summary(asked: Asked, what: string, { shown }: Preview): Content {
  const { set, typed, replaced, find, by } = asked;
  const shownNew = ({ column }: FormField): Content => {
    const { text, isNull } = typed.get(column) ?? { text: '', isNull: true };
    if (text === '') return t(isNull ? 'noValue' : 'anEmptyText');
    return phrase('quoted', { text: shown(column, text, 300) });
  };
  return html`${set.map(
    (field) =>
      html`<p class="lead">
        ${phrase('becomesIn', { column: field.label, value: html`<strong>${shownNew(field)}</strong>`, what: html`<strong>${what}</strong>` })}
      </p>`,
  )}
  ${
    isReplacing(asked) &&
    html`<p class="lead">
      ${phrase('becomesIn', {
        column: html`<strong>${quoted(find)}</strong>`,
        value: html`<strong>${by === '' ? t('nothing') : quoted(by)}</strong>`,
        what: replaced.map(({ label }) => label).join(', '),
      })}
    </p>`
  }`;
}

/** Changes the records once that is confirmed. @param preview what the change would touch */
function changing(
  context: BulkContext,
  asked: Asked,
  change: BulkChange,
  preview: () => Promise<Preview>,
): Action {
  const { bulk, resource, choice, caller } = context;
  const { set, typed, replaced, find, by } = asked;
  const columns = changed(asked).map(({ column }) => column);
  const names = columns.map(({ title }) => title).join(', ');
  return {
    async page() {
      const count = await countSelected(context);
      if (count === 0) return redirectFailed(context, listUrl(context), t('noRecordsToChange'));
      const shown = await preview();
      const records = previewTable(context, shown) || (await selectedRecords(context, count));
      const what = t('records', { count });
      const carried = [
        ...set.flatMap((field) => {
          const value = typed.get(field.column);
          return [['_column', field.name] as const, ...(value ? field.carried(value) : [])];
        }),
        ...(isReplacing(asked) ? replaced.map(({ name }) => ['_in', name] as const) : []),
        ['_replace', find] as const,
        ['_with', by] as const,
      ];
      return {
        ...frameOf(context),
        title: t('changeColumnsOf', { names, what }),
        fields: html`${await hiddenChoice(context, 'set')} ${await hiddenInputs(carried)} ${submitOnceField()}
          <input type="hidden" name="_value" value="1" />
          <input type="hidden" name="_expected" value="${count}" />
          <input type="hidden" name="_confirm" value="1" />
          ${summary(asked, what, shown)}`,
        button: t('updateWhat', { what }),
        around: (form) => html`${form} ${records}`,
      };
    },

    needs: () => ({
      password: hasPrivilegeColumn(context, columns, false) && t('neededForUsers'),
      code: showsUsers(context),
    }),

    async run(form) {
      const expected = Number(form.get('_expected'));
      const recordEvent = endOf(context, 'bulk.change', columns);
      const once = await onceOnly(context, form);
      const done = (text: string): Reply => redirectDone(context, listUrl(context), text);
      const textFor = (count: number): string => {
        const same = expected - count;
        const isValue = !isReplacing(asked) && columns.length === 1;
        const facts = { count: columns.length, names, records: t('records', { count }) };
        const done = t(isReplacing(asked) ? 'columnsChangedIn' : 'columnsSetIn', facts);
        return same === 0 ? done : t(isValue ? 'hadValueAlready' : 'didNotChange', { done, same });
      };
      try {
        const count = await bulk.set(resource, choice.selection, change, caller, {
          expected,
          begin: once.begin,
          end: async (transaction, records) => {
            await recordEvent(transaction, records);
            await once.end(transaction, textFor(records));
          },
        });
        return done(textFor(count));
      } catch (error) {
        if (error instanceof SubmittedBefore) return done(error.result);
        throw error;
      }
    },
  };
}

/** Why the form cannot be what it asks for, before its values are checked. */
function faultsOf(asked: Asked): Refusal | undefined {
  const { fields, set, typed, replaced, find } = asked;
  const errors: FieldErrors = {};
  for (const field of fields) {
    const isTyped = typed.get(field.column)?.text !== field.read(EMPTY_FORM).text;
    if (isTyped && !set.includes(field)) addError(errors, field.name, t('notTicked'));
  }
  if (isReplacing(asked)) {
    if (find === '') addError(errors, '_replace', messageOf('required'));
    if (replaced.length === 0) addError(errors, '_replace', t('needsColumns'));
    for (const field of replaced)
      if (set.includes(field)) addError(errors, '_replace', t('isSetAbove', { label: field.label }));
  }
  const isNothing = changed(asked).length === 0;
  if (Object.keys(errors).length > 0) return { errors, status: 400 };
  return isNothing ? { errors, notice: t('chooseChange'), status: 400 } : undefined;
}

/** What the form writes, and the errors of its values. */
async function changeOf({
  set,
  typed,
  ...asked
}: Asked): Promise<{ change: BulkChange; errors: FieldErrors }> {
  const fields = new Map<string, JsonField>();
  const errors: FieldErrors = {};
  for (const field of set) {
    const json = await field.json(typed.get(field.column) ?? { text: '', isNull: true });
    if ('fault' in json) addError(errors, field.name, json.fault);
    else fields.set(field.column.key, json);
  }
  const finds = new Map<string, string>();
  for (const { column } of isReplacing({ set, typed, ...asked }) ? asked.replaced : []) {
    finds.set(column.key, asked.find);
    fields.set(column.key, { value: asked.by, source: JSON.stringify(asked.by) });
  }
  return { change: { fields, finds }, errors };
}

/** Checks the values, then asks for confirmation or, once confirmed, changes the records. */
async function confirmOrChange(context: BulkContext, asked: Asked, form: Form): Promise<Reply> {
  const { bulk, resource, choice, caller } = context;
  const { change, errors } = await changeOf(asked);
  const isFaulty = (): boolean => Object.keys(errors).length > 0;
  const refuse = (): Promise<Reply> => changePage(context, asked, { errors, status: 400 });
  if (isFaulty()) return refuse();
  addLockOut(errors, change.fields, t('wouldLockYouOutAmongSelected'));
  if (isFaulty() && isUserModel(context) && (await bulk.includes(resource, choice.selection, caller.id)))
    return refuse();
  let known: Promise<Preview> | undefined;
  const preview = (): Promise<Preview> =>
    (known ??= bulk.check(resource, change, caller).then(({ changes }) => previewOf(context, changes)));
  const action = changing(context, asked, change, preview);
  try {
    if (form.get('_confirm') !== undefined) return await runAction(context, action, form);
    const { changes, found } = await preview();
    const late: FieldErrors = {};
    changes.forEach(({ column }, index) => {
      const { key, maxLength: max = 0 } = column;
      if (found?.areTooLong[index]) addError(late, key, messageOf('longerThan', { max }));
      // As in the form of a record.
      if (found?.areEmptied[index] && mustHaveText(column)) addError(late, key, messageOf('required'));
    });
    if (found?.count === 0 && asked.set.length === 0) addError(late, '_replace', t('inNoneSelected'));
    if (Object.keys(late).length > 0) return await changePage(context, asked, { errors: late, status: 400 });
  } catch (error) {
    const refusal = refusalOf(
      context,
      error,
      changed(asked).map(({ column }) => column),
    );
    const isOfValue = Object.keys(refusal.errors).length > 0;
    const since = isOfValue ? undefined : await selectionChange(context, form);
    if (since === undefined) return changePage(context, asked, refusal);
    return showAction(context, action, {
      errors: {},
      notice: t('nothingWasChanged', { change: since }),
      status: 409,
    });
  }
  return showAction(context, action);
}

/** Shows the page for what the form lacks, or changes the records. @throws Problem 404 for a column that cannot be set */
export async function setColumns(context: BulkContext, form: Form): Promise<Reply> {
  const { resource, choice } = context;
  // First, so that an invalid filter of the list is not reported as an error of the value.
  context.browsing.plan(resource, choice.selection);
  const fields = fieldsOf(resource, false);
  const find = (key: string): FormField | undefined => fields.find(({ name }) => name === form.get(key));
  const lookup = find('_lookup');
  if (lookup) return showLookup(context, lookup, form, frameOf(context).crumbs);
  const asked = askedIn(context, form, fields);
  const [chosenField, chosen] = [find('_for'), form.get('_choose')];
  if (chosenField && chosen !== undefined) {
    const typed = new Map(asked.typed).set(chosenField.column, { text: chosen, isNull: chosen === '' });
    return changePage(context, { ...asked, typed, set: [...asked.set, chosenField] });
  }
  if (form.get('_value') === undefined || asked.previewed !== undefined) return changePage(context, asked);
  const refusal = faultsOf(asked);
  if (refusal) return changePage(context, asked, refusal);
  const set = valuesOf(asked.set, ({ column }) => asked.typed.get(column));
  const [keyed] = await withKeys(context, [{ typed: set }]);
  const typed = new Map([...asked.typed, ...(keyed?.typed ?? [])]);
  return confirmOrChange(context, { ...asked, typed }, form);
}
