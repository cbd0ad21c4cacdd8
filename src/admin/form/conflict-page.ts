import type { Column } from '../../db/schema/model.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { RecordEntry } from '../../resources/records/browsing.ts';
import type { AdminContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import {
  isSame,
  KEPT,
  markOf,
  originIn,
  storedValues,
  type Typed,
  type TypedValues,
} from '../fields/form-values.ts';
import { editableColumns } from '../fields/form-page.ts';
import { attributes, hiddenInputs, html, type Html } from '../web/html.ts';
import { pageReply } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { referencesOf } from '../fields/references.ts';
import { EMPTY_TEXT, NOTHING, shortened, shownValue } from '../web/display-text.ts';
import type { AdminRequest } from '../web/admin-request.ts';

/** What somebody else has stored since the form was made, beside what was typed. */
export interface Conflict {
  readonly resource: AdminResource;
  readonly stored: RecordEntry & { readonly version: string };
  readonly typed: TypedValues;
  /** The form as it was sent, with its marks of what it was made from. */
  readonly form: Form;
}

/** The marks of the values that the form was made from, by key. */
const marksOf = (form: Form, columns: readonly Column[]): ReadonlyMap<string, string> =>
  new Map(
    originIn(form, columns)
      .split(' ')
      .map((mark) => mark.split(':', 2) as [string, string]),
  );

/** Characters of a value that are shown at most, and how many of them come before the first difference. */
const MOST_SHOWN = 2000;
const BEFORE = 100;

/** What is shown of a text beside another one: where both are long, what is around the first difference. */
function excerpt(text: string, other: string): string {
  if (text.length <= MOST_SHOWN) return text;
  let same = 0;
  while (same < text.length && text[same] === other[same]) same += 1;
  const from = same + BEFORE > MOST_SHOWN ? same - BEFORE : 0;
  const part = text.slice(from, from + MOST_SHOWN).toWellFormed();
  return `${from > 0 ? '… ' : ''}${part}${from + MOST_SHOWN < text.length ? ' …' : ''}`;
}

const CHOICE = '_take.';
const takeName = ({ key }: Column): string => `${CHOICE}${key}`;

/** Whether a field of a form says whose value of a column to take. */
export const isChoice = (name: string): boolean => name.startsWith(CHOICE);

/** Whose value of a column to take: where only one side has changed it, that side's; else the person says. */
function choiceOf(
  mine: Typed,
  theirs: Typed,
  said: string | undefined,
  origin: string | undefined,
): 'mine' | 'theirs' | undefined {
  if (said === 'theirs') return said;
  // One's own was preferred to what stood beside it then: where that has changed again, the person has to choose again.
  if (said === 'mine') return origin === markOf(theirs) ? said : undefined;
  if (origin === markOf(mine)) return 'theirs';
  return origin === markOf(theirs) ? 'mine' : undefined;
}

/**
 * What was typed, with the stored values where the person has chosen those. A stored value that is too long for a form is left
 * out, and so stays as it is.
 */
export function resolved({ stored, typed, form }: Conflict): TypedValues {
  const others = storedValues(stored, [...typed.keys()]);
  return new Map(
    [...typed].flatMap(([column, mine]) => {
      const theirs = others.get(column);
      if (!theirs || form.get(takeName(column)) !== 'theirs') return [[column, mine] as const];
      return theirs.cutMark === undefined ? [[column, theirs] as const] : [];
    }),
  );
}

/** The page that shows both sets of values side by side; it sends the form again, made from what is stored now. */
export async function showConflict(
  context: AdminContext,
  adminRequest: AdminRequest,
  conflict: Conflict,
): Promise<Reply> {
  const { resource, stored, typed, form } = conflict;
  const others = storedValues(stored, [...typed.keys()]);
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
    const { options, label } = named.get(column) ?? {};
    const name = label ?? options?.find(({ id }) => id === text)?.label;
    return name ?? shownValue(column, excerpt(text, other.text));
  };
  const origins = marksOf(form, editableColumns(resource, false));
  const rows = [...typed].flatMap(([column, mine]) => {
    const theirs = others.get(column);
    if (!theirs || isSame(mine, theirs)) return [];
    const choice = choiceOf(mine, theirs, form.get(takeName(column)), origins.get(column.key));
    const radio = (side: 'mine' | 'theirs', value: Html | string): Html =>
      html`<td data-label="${side === 'mine' ? 'Yours' : 'Stored now'}">
        <label class="choice"
          ><input
            type="radio"
            name="${takeName(column)}"
            value="${side}"
            required${attributes({ checked: choice === side })}
          />
          <span class="value">${value}</span></label
        >
      </td>`;
    return [
      html`<tr>
        <th scope="row">${column.title}</th>
        ${radio('mine', shown(column, mine, theirs, mineNamed))}${radio('theirs', shown(column, theirs, mine, theirsNamed))}
      </tr>`,
    ];
  });
  const kept = form.entries.filter(
    ([name]) => !name.startsWith('_') || ['_save', '_list', KEPT].includes(name),
  );
  const hidden = await hiddenInputs(kept);
  const marks = [...others].map(([column, value]) => `${column.key}:${markOf(value)}`).join(' ');
  const body = html` <p class="notice" role="alert">
      Somebody has changed this record since you opened it. Nothing is lost: choose, for each column in which
      the two differ, which value it shall have.
    </p>
    <form method="post" action="${links.record(resource.name, stored.id)}" class="conflict">
      <input type="hidden" name="_csrf" value="${adminRequest.csrf}" />
      <input type="hidden" name="_version" value="${stored.version}" />
      <input type="hidden" name="_origin" value="${marks}" />
      ${hidden}
      <table class="compare">
        <thead>
          <tr>
            <th scope="col">Column</th>
            <th scope="col">Yours</th>
            <th scope="col">Stored now</th>
          </tr>
        </thead>
        <tbody>
          ${rows}
        </tbody>
      </table>
      <div class="buttons">
        <button class="primary">Save as chosen</button>
        <a class="button" href="${links.record(resource.name, stored.id)}">Give up my changes</a>
        <a class="button" href="${links.part(resource.name, stored.id, 'history')}" target="_blank"
          >Who has changed it? (new tab)</a
        >
      </div>
    </form>`;
  return pageReply(adminRequest, {
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
