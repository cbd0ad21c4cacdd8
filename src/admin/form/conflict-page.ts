// The page for a form whose record has changed since the form was opened.
import type { Column } from '../../db/schema/model.ts';
import type { Reply } from '../../http/message/message.ts';
import type { StoredRecord } from '../../resources/records/labeled-record.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import {
  isSame,
  digestOf,
  originIn,
  originOf,
  storedValues,
  type Typed,
  type TypedValues,
} from '../fields/form-values.ts';
import { renderLongTexts } from '../fields/form-fields.ts';
import { editableColumns } from '../fields/form-page.ts';
import { attributes, hiddenInputs, html, type Html } from '../web/html.ts';
import { pageReply } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { labelIn, referencesOf } from '../fields/references.ts';
import { EMPTY_TEXT, NOTHING, shortened, shownValue } from '../web/display-text.ts';
import { table } from '../web/widgets.ts';

/** A form whose record has changed since the form was loaded. */
export interface Conflict {
  readonly stored: StoredRecord;
  readonly typed: TypedValues;
  /** The form as it was sent, with digests of the values that it was loaded with. */
  readonly form: Form;
}

/** The digests of the values that the form was loaded with, by key. */
const digestsOf = (form: Form, columns: readonly Column[]): ReadonlyMap<string, string> =>
  new Map(
    originIn(form, columns)
      .split(' ')
      .map((entry) => entry.split(':', 2) as [string, string]),
  );

/** Maximum characters shown of a value, and how many of them precede the first difference. */
const MAX_SHOWN = 2000;
const CONTEXT_BEFORE = 100;

/** The part of a text to compare with another one: of a long text, the part around the first difference. */
function excerpt(text: string, other: string): string {
  if (text.length <= MAX_SHOWN) return text;
  let same = 0;
  while (same < text.length && text[same] === other[same]) same += 1;
  const from = same + CONTEXT_BEFORE > MAX_SHOWN ? same - CONTEXT_BEFORE : 0;
  const part = text.slice(from, from + MAX_SHOWN).toWellFormed();
  return `${from > 0 ? '… ' : ''}${part}${from + MAX_SHOWN < text.length ? ' …' : ''}`;
}

const CHOICE = '_take.';
const takeName = ({ key }: Column): string => `${CHOICE}${key}`;

/** Whether a form field holds a choice between the two values of a column. */
export const isChoice = (name: string): boolean => name.startsWith(CHOICE);

/**
 * The preselected value of a column: the user's earlier choice, or the side that changed it. Undefined where both sides changed
 * it.
 * @param origin the digest of the value that the form was loaded with
 */
function choiceOf(
  mine: Typed,
  theirs: Typed,
  chosen: string | undefined,
  origin: string | undefined,
): 'mine' | 'theirs' | undefined {
  if (chosen === 'theirs') return chosen;
  // The user preferred this value to an older stored one. If that has changed again, the user must choose again.
  if (chosen === 'mine') return origin === digestOf(theirs) ? chosen : undefined;
  if (origin === digestOf(mine)) return 'theirs';
  return origin === digestOf(theirs) ? 'mine' : undefined;
}

/** The typed values, replaced by the stored ones where the user has chosen those. */
export function resolveConflict({ stored, typed, form }: Conflict): TypedValues {
  const others = storedValues(stored, [...typed.keys()]);
  return new Map(
    [...typed].map(([column, mine]) => {
      const isTheirs = form.get(takeName(column)) === 'theirs';
      return [column, (isTheirs && others.get(column)) || mine] as const;
    }),
  );
}

/** The page that shows both values of each field side by side. It sends the form again, based on the current record. */
export async function showConflict(
  context: ResourceContext,
  { stored, typed, form }: Conflict,
): Promise<Reply> {
  const { resource } = context;
  const others = storedValues(stored, [...typed.keys()]);
  const tooLong = new Map([...typed].filter(([column]) => !others.has(column)));
  const longTexts = await renderLongTexts(tooLong);
  const [mineNamed, theirsNamed] = await Promise.all([
    referencesOf(context, typed),
    referencesOf(context, others),
  ]);
  const shown = (
    column: Column,
    { text, isNull }: Typed,
    other: Typed,
    named: typeof mineNamed,
  ): Html | string => {
    if (text === '') return isNull ? NOTHING : EMPTY_TEXT;
    return labelIn(named.get(column), text) ?? shownValue(column, excerpt(text, other.text));
  };
  const origins = digestsOf(form, editableColumns(resource, false));
  const rows = [...typed].flatMap(([column, mine]) => {
    const theirs = others.get(column);
    if (!theirs) {
      if (origins.get(column.key) === digestOf(mine)) return [];
      const state = attributes({ readonly: true, 'aria-label': column.title });
      const copy = html`<textarea${state}>${'\n'}${longTexts.get(column) ?? mine.text}</textarea>`;
      return [[column.title, copy, 'Now too long to edit here. Saving keeps it.']];
    }
    if (isSame(mine, theirs)) return [];
    const choice = choiceOf(mine, theirs, form.get(takeName(column)), origins.get(column.key));
    const radio = (side: 'mine' | 'theirs', value: Html | string): Html =>
      html`<label class="choice"
        ><input
          type="radio"
          name="${takeName(column)}"
          value="${side}"
          required${attributes({ checked: choice === side })}
        />
        <span class="value">${value}</span></label
      >`;
    return [
      [
        column.title,
        radio('mine', shown(column, mine, theirs, mineNamed)),
        radio('theirs', shown(column, theirs, mine, theirsNamed)),
      ],
    ];
  });
  const withoutField = new Set([...tooLong.keys()].map(({ key }) => key));
  const kept = form.entries.filter(
    ([name]) => (!name.startsWith('_') && !withoutField.has(name)) || ['_save', '_list'].includes(name),
  );
  const hidden = await hiddenInputs(kept);
  const body = html` <p class="notice" role="alert">
      This record has changed since you opened it. Your changes are not lost: for each field below, choose the
      value to save.
    </p>
    <form method="post" action="${links.record(resource.name, stored.id)}" class="conflict" data-unsaved>
      <input type="hidden" name="_csrf" value="${context.csrf}" />
      <input type="hidden" name="_version" value="${stored.version}" />
      <input type="hidden" name="_origin" value="${originOf(others)}" />
      ${hidden} ${table(['Field', 'Your value', 'Current value'], rows, { className: 'compare' })}
      <div class="buttons">
        <button class="primary">Save</button>
        <a class="button" href="${links.record(resource.name, stored.id)}" data-discard>Discard my changes</a>
        ${
          resource.recorded &&
          resource.allows.has('history') &&
          html`<a class="button" href="${links.part(resource.name, stored.id, 'history')}" target="_blank"
            >Show history (new tab)</a
          >`
        }
      </div>
    </form>`;
  return pageReply(context, {
    title: `Conflict: ${shortened(stored.label, 80)}`,
    crumbs: [
      { text: resource.title, href: links.list(resource.name) },
      { text: shortened(stored.label, 40), href: links.record(resource.name, stored.id) },
      { text: 'Conflict' },
    ],
    kind: 'form',
    status: 409,
    body,
  });
}
