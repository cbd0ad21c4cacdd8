// Changes the selected records of a list: sets columns, and replaces a text inside of others. One page asks, one shows what changes.
import { addError, notFound, type FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import { messageOf } from '../../messages.ts';
import type { ChangePreview } from '../../query/statements/bulk-statements.ts';
import type { Change } from '../../query/statements/write-plan.ts';
import { addValueFaults, isReplaceable, type BulkChange } from '../../resources/records/bulk-operations.ts';
import type { JsonField } from '../../resources/records/json-fields.ts';
import { fieldsOf, type FormField, type TypedValues } from '../fields/form-field.ts';
import { loadOptional } from '../fields/optional-part.ts';
import { refusalOf } from '../form/save.ts';
import {
  addLockOut,
  isUserModel,
  hasPrivilegeColumn,
  showsUsers,
  type Refusal,
} from '../session/password-confirmation.ts';
import { links } from '../web/admin-links.ts';
import { shortened } from '../web/display-text.ts';
import { phrase, t } from '../web/language.ts';
import { createForm, type Form } from '../web/form-data.ts';
import { attributes, html, type Content, type Html } from '../web/html.ts';
import { textsOf } from '../web/read-text.ts';
import { inputField, messagesOf, table } from '../web/widgets.ts';
import { answerSteps, valuesWithLabels, type ActionSteps, type ShowValue } from './action-steps.ts';
import { endOf, selectionTarget, type BulkContext } from './target.ts';

/** What the form asks for, beside values. Its fields `_column` and `_in` name the columns, `_replace` and `_with` the texts. */
interface Asked {
  /** The fields of the columns to set. */
  readonly set: readonly FormField[];
  /** The fields of the columns to search. */
  readonly searched: readonly FormField[];
  readonly find: string;
  readonly by: string;
  /** The fields of the columns in which `find` is replaced. */
  readonly replaced: readonly FormField[];
}

const replaceLabels = () => ({ _replace: t('find'), _with: t('replaceWith') });

const EMPTY_FORM = createForm([]);

const isReplacing = ({ find, by }: Asked): boolean => find !== '' || by !== '';

/** The fields of all columns that change. */
const changed = ({ set, replaced }: Asked): readonly FormField[] => [...set, ...replaced];

const replaceable = ({ resource }: BulkContext, fields: readonly FormField[]): readonly FormField[] =>
  fields.filter(({ column }) => isReplaceable(resource, column));

/** @throws Problem 404 for a column that cannot be set */
function askedIn(context: BulkContext, form: Form, fields: readonly FormField[]): Asked {
  const named = (names: readonly string[], among: readonly FormField[]): FormField[] => {
    if (!names.every((name) => among.some((field) => field.name === name)))
      throw notFound(t('columnNotSettable'));
    return among.filter(({ name }) => names.includes(name));
  };
  const texts = replaceable(context, fields);
  const isFirst = form.get('_value') === undefined && texts.length === 1;
  const searched = isFirst ? texts : named(form.all('_in'), texts);
  const [find, by] = [form.get('_replace') ?? '', form.get('_with') ?? ''];
  // A record that was chosen for a field is to be set.
  const chosen = form.get('_choose') === undefined ? [] : form.all('_for');
  return {
    set: named([...form.all('_column'), ...chosen], fields),
    searched,
    find,
    by,
    replaced: find !== '' || by !== '' ? searched : [],
  };
}

/** The part of the form that replaces a text. */
function replacePart(
  texts: readonly FormField[],
  { searched, find, by }: Asked,
  errors: FieldErrors,
): Html | false {
  const input = (name: keyof ReturnType<typeof replaceLabels>, value: string, hint?: string): Html =>
    inputField(
      name,
      replaceLabels()[name],
      { type: 'text', value },
      { errors: messagesOf(errors, name), hint },
    );
  return (
    texts.length > 0 &&
    html`<fieldset>
      <legend>${t('findAndReplace')}</legend>
      ${input('_replace', find, t('findHint'))} ${input('_with', by)}
      <div class="field" role="group" aria-label="${t('columnsToSearch')}">
        <span class="label">${t('inColumns')}</span>
        <div class="control">
          ${texts.map((field) => tick('_in', field, searched, 'inColumn', html`${field.label}`))}
        </div>
      </div>
    </fieldset>`
  );
}

/** A checkbox for the column of a field. */
function tick(
  name: string,
  field: FormField,
  ticked: readonly FormField[],
  description: 'inColumn' | 'setColumn',
  text: Content,
): Html {
  const box = attributes({
    name,
    value: field.name,
    checked: ticked.includes(field),
    'aria-label': t(description, { label: field.label }),
  });
  return html`<label class="check"><input type="checkbox" ${box} /> ${text}</label> `;
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
  /** A value of a column. */
  readonly shown: ShowValue;
}

async function previewOf(context: BulkContext, changes: readonly Change[]): Promise<Preview> {
  const { browsing, bulk, resource, choice } = context;
  const reading = bulk.preview(resource, choice.selection, changes);
  const found = await loadOptional(context, `the preview of a change of ${resource.name}`, reading);
  const records = found?.records ?? [];
  const values = changes.flatMap(({ column, value }, index) =>
    [value, ...records.map(({ before }) => before[index] ?? null)].map((text) => [column, text] as const),
  );
  const [shown, labels] = await Promise.all([
    valuesWithLabels(context, values),
    browsing.labelsOf(resource, new Set(records.map(({ id }) => id))),
  ]);
  return { changes, found, shown, nameOf: (id) => shortened(labels.get(id) ?? `#${id}`) };
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
function summary(asked: Asked, typed: TypedValues, what: string, { shown }: Preview): Content {
  const { set, replaced, find, by } = asked;
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

/** Why the form cannot be what it asks for, before its values are checked. */
function faultsOf(fields: readonly FormField[], asked: Asked, typed: TypedValues): Refusal | undefined {
  const { set, replaced, find } = asked;
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
  if (Object.keys(errors).length > 0) return { errors, status: 400 };
  return changed(asked).length > 0 ? undefined : { errors, notice: t('chooseChange'), status: 400 };
}

/** What the form writes, and the errors of its values. */
async function changeOf(
  { set, replaced, find, by }: Asked,
  typed: TypedValues,
): Promise<{ change: BulkChange; errors: FieldErrors }> {
  const fields = new Map<string, JsonField>();
  const errors: FieldErrors = {};
  for (const field of set) {
    const json = await field.json(typed.get(field.column) ?? { text: '', isNull: true });
    if ('fault' in json) addError(errors, field.name, json.fault);
    else fields.set(field.column.key, json);
  }
  const finds = new Map<string, string>();
  for (const { column } of replaced) {
    finds.set(column.key, find);
    fields.set(column.key, { value: by, source: JSON.stringify(by) });
  }
  return { change: { fields, finds }, errors };
}

/** The errors that a preview has found. */
function previewFaults(asked: Asked, { changes, found }: Preview): FieldErrors {
  const errors: FieldErrors = {};
  addValueFaults(changes, found?.faults ?? '', errors);
  if (found?.count === 0 && asked.set.length === 0) addError(errors, '_replace', t('inNoneSelected'));
  return errors;
}

/** Shows the page for what the form lacks, or changes the records. @throws Problem 404 for a column that cannot be set */
export async function setColumns(context: BulkContext, form: Form): Promise<Reply> {
  const { browsing, bulk, caller, resource, choice } = context;
  const { selection } = choice;
  // First, so that an invalid filter of the list is not reported as an error of the value.
  browsing.plan(resource, selection);
  const fields = fieldsOf(resource, false);
  const asked = askedIn(context, form, fields);
  const { set, replaced, find, by } = asked;
  const columns = changed(asked).map(({ column }) => column);
  const names = columns.map(({ title }) => title).join(', ');
  let change: BulkChange = { fields: new Map() };
  let changes: readonly Change[] = [];
  let known: Promise<Preview> | undefined;
  const preview = (): Promise<Preview> => (known ??= previewOf(context, changes));

  /** The errors of columns in which a text is replaced are at the field of the text that replaces it. */
  function refuse(refusal: Refusal): Refusal {
    const errors: FieldErrors = {};
    for (const [key, messages] of Object.entries(refusal.errors)) {
      const field = replaced.find(({ name }) => name === key);
      for (const text of messages)
        addError(
          errors,
          field ? '_with' : key,
          field ? t('labeled', { label: field.label, value: text }) : text,
        );
    }
    return { ...refusal, errors };
  }

  /** The message after the change of so many records. */
  function textFor(count: number, expected: number): string {
    const same = expected - count;
    const facts = { count: columns.length, names, records: t('records', { count }) };
    const done = t(isReplacing(asked) ? 'columnsChangedIn' : 'columnsSetIn', facts);
    const isValue = !isReplacing(asked) && columns.length === 1;
    return same === 0 ? done : t(isValue ? 'hadValueAlready' : 'didNotChange', { done, same });
  }

  const steps: ActionSteps = {
    name: 'set',
    crumb: t('change'),
    fields,
    labels: replaceLabels(),

    initial: ({ column }) => ({
      text: '',
      // With choices, NULL means no choice yet: the empty text may not be one.
      isNull: column.nullable || textsOf(column) !== undefined,
    }),

    title: (count, isLast) =>
      isLast ? t('changeColumnsOf', { names, what: t('records', { count }) }) : t('changeRecords', { count }),

    button: (what) => t('updateWhat', { what }),

    form: (fieldOf, errors) =>
      html`<p class="hint">${t('tickColumns')}</p>
        ${fields.map(
          (field) =>
            html`<div class="settable">
              ${tick('_column', field, set, 'setColumn', t('set'))} ${fieldOf(field)}
            </div>`,
        )}
        ${replacePart(replaceable(context, fields), asked, errors)}`,

    asksAgain: true,

    async confirmation(typed, what) {
      const shown = await preview();
      return {
        question: summary(asked, typed, what, shown),
        records: previewTable(context, shown) || undefined,
        count: shown.found?.count,
      };
    },

    carried: (typed) => [
      ...set.flatMap((field) => {
        const value = typed.get(field.column);
        return [['_column', field.name] as const, ...(value ? field.carried(value) : [])];
      }),
      ...replaced.map(({ name }) => ['_in', name] as const),
      ['_replace', find],
      ['_with', by],
    ],

    async check(typed, isConfirmed) {
      const faults = faultsOf(fields, asked, typed);
      if (faults) return faults;
      const { errors, ...made } = await changeOf(asked, typed);
      const isFaulty = (): boolean => Object.keys(errors).length > 0;
      if (isFaulty()) return { errors, status: 400 };
      ({ change } = made);
      addLockOut(errors, change.fields, t('wouldLockYouOutAmongSelected'));
      if (isFaulty() && isUserModel(context) && (await bulk.includes(resource, selection, caller.id)))
        return { errors, status: 400 };
      try {
        ({ changes } = await bulk.check(resource, change, caller));
        const late = isConfirmed ? {} : previewFaults(asked, await preview());
        return Object.keys(late).length > 0 ? refuse({ errors: late, status: 400 }) : undefined;
      } catch (error) {
        return refuse(refusalOf(context, error, columns));
      }
    },

    needs: () => ({
      password: hasPrivilegeColumn(context, columns, false) && t('neededForUsers'),
      code: showsUsers(context),
    }),

    async run({ begin, end }, expected, author) {
      const recordEvent = endOf(context, 'bulk.change', columns);
      const count = await bulk.set(resource, selection, change, author, {
        expected,
        begin,
        async end(transaction, done) {
          await recordEvent(transaction, done);
          await end(transaction, textFor(done, expected));
        },
      });
      return textFor(count, expected);
    },

    refusalFor: (error) => refuse(refusalOf(context, error, columns)),
  };
  return answerSteps(context, selectionTarget(context), steps, form);
}
