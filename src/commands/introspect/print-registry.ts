import type { Printed } from './default-value.ts';
import type { IntrospectedResource, Introspection } from './introspection.ts';

const isName = (key: string): boolean => /^[A-Za-z_$][\w$]*$/.test(key);

/** What ends a line for JavaScript, what cannot be seen, and what turns the direction of a text round. */
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]/g; // eslint-disable-line no-control-regex -- these are meant

const escape = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** A string as JavaScript in single quotes; JSON escapes what has to be. */
const quote = (text: string): string =>
  `'${JSON.stringify(text)
    .slice(1, -1)
    .replaceAll('\\"', '"')
    .replaceAll("'", "\\'")
    .replace(UNSEEN, escape)}'`;

function print(value: Printed): string {
  if (typeof value === 'string') return quote(value);
  if (Array.isArray(value)) return `[${(value as readonly Printed[]).map(print).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return String(value);
  const members = Object.entries(value).map(
    // `{ __proto__: … }` would set something else than a member.
    ([key, member]) =>
      `${key === '__proto__' ? "['__proto__']" : isName(key) ? key : quote(key)}: ${print(member)}`,
  );
  return members.length === 0 ? '{}' : `{ ${members.join(', ')} }`;
}

const comment = (text: string, indent: string): string[] =>
  text.split(/[\r\n\u2028\u2029]+/).map((line) => `${indent}// ${line.replace(UNSEEN, ' ')}`.trimEnd());

function printResource(one: IntrospectedResource): string {
  const { model, table, primaryKey, columns, readonly, secrets, notes } = one;
  const lines = ['  {', ...(one.comment === undefined ? [] : comment(one.comment, '    '))];
  lines.push(`    model: ${print(model)},`);
  if (table !== model) lines.push(`    table: ${print(table)},`);
  if (primaryKey) lines.push(`    primaryKey: ${print(primaryKey)},`);
  const inside = [
    ...columns.map(({ name, definition }) => `      ${name}: ${print(definition)},`),
    ...notes.flatMap((note) => comment(note, '      ')),
  ];
  lines.push(...(inside.length > 0 ? ['    columns: {', ...inside, '    },'] : ['    columns: {},']));
  if (readonly.length > 0) lines.push(`    readonly: ${print(readonly)},`);
  if (secrets.length > 0) {
    lines.push('    // Called like secrets: nobody sees them through the API until you decide otherwise.');
    lines.push(`    exclude: ${print(secrets)},`);
    lines.push(`    admin: { exclude: ${print(secrets)} },`);
  }
  return [...lines, '  },'].join('\n');
}

/** The registry file. It needs no import, and is JavaScript as well as TypeScript. */
export function printRegistry({ resources, notes }: Introspection): string {
  const head = [
    '// Made by `vitrine introspect` from a database. Serve it with SCHEMA=check, which never changes the database.',
    '//',
    "// Everyone may read these tables, and nobody may write. For writing, say access: 'user' or 'admin', and add a user model.",
    ...(notes.length > 0 ? ['//'] : []),
    ...notes.flatMap((note) => comment(note, '')),
  ];
  return [...head, '', 'export default [', ...resources.map(printResource), '];', ''].join('\n');
}
