// Prints an introspection as a registry file.
import type { AccessLevel } from '../../config.ts';
import type { Resource } from '../../resources/definition/resource.ts';
import type { Printed } from './stored-columns.ts';
import type { IntrospectedResource, Introspection } from './introspection.ts';
import { listNames } from './model-names.ts';

const isName = (key: string): boolean => /^[A-Za-z_$][\w$]*$/.test(key);

/** Line ends of JavaScript, invisible characters, and characters that change the text direction. */
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]/g; // eslint-disable-line no-control-regex -- intended

const escape = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** A JavaScript string in single quotes. */
const quote = (text: string): string =>
  `'${JSON.stringify(text)
    .slice(1, -1)
    .replaceAll('\\"', '"')
    .replaceAll("'", "\\'")
    .replace(INVISIBLE, escape)}'`;

function print(value: Printed): string {
  if (typeof value === 'string') return quote(value);
  if (Array.isArray(value)) return `[${(value as readonly Printed[]).map(print).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return String(value);
  const properties = Object.entries(value).map(
    // `{ __proto__: … }` would set the prototype.
    ([key, property]) =>
      `${key === '__proto__' ? "['__proto__']" : isName(key) ? key : quote(key)}: ${print(property)}`,
  );
  return properties.length === 0 ? '{}' : `{ ${properties.join(', ')} }`;
}

const comment = (text: string, indent: string): string[] =>
  text.split(/[\r\n\u2028\u2029]+/).map((line) => `${indent}// ${line.replace(INVISIBLE, ' ')}`.trimEnd());

/** Why a resource has no key, and the line that would name one. */
function keylessNote({ keyless, proposed }: IntrospectedResource): string[] {
  if (!keyless) return [];
  const { fault, help } = keyless;
  const reason = `${fault.charAt(0).toUpperCase()}${fault.slice(1)}.${help === undefined ? '' : ` ${help}`}`;
  if (proposed.length === 0) return [reason];
  const tables = keyless.proposed?.tables ?? [];
  const source = tables.length > 0 ? ` (of ${listNames(tables)})` : '';
  return [
    `${reason} This would be a likely key${source}. Its columns must not have null: true, and \`npx vitrine check\` looks for duplicates:`,
    `primaryKey: ${print({ columns: proposed })},`,
  ];
}

/**
 * The resource as the printed file defines it, its keys in the usual order.
 * @param read who may read it; undefined leaves that to the setting READ
 */
export function definitionOf(one: IntrospectedResource, read?: AccessLevel): Resource {
  const { model, table, primaryKey, columns, foreignKeys, readonly, secrets, hasPolicies } = one;
  const definition: Readonly<Record<string, Printed | undefined>> = {
    model,
    table: table === model ? undefined : table,
    view: one.isView ? true : undefined,
    primaryKey,
    columns: Object.fromEntries(columns.map(({ name, definition }) => [name, definition])),
    foreignKeys: Object.keys(foreignKeys).length > 0 ? foreignKeys : undefined,
    read,
    readonly: readonly.length > 0 ? readonly : undefined,
    methods: methodsOf(one),
    identity: hasPolicies ? true : undefined,
    exclude: secrets.length > 0 ? secrets : undefined,
    admin: adminOf(one),
  };
  const given = Object.entries(definition).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as unknown as Resource;
}

function printResource(one: IntrospectedResource, read: AccessLevel | undefined): string {
  const { isAddable, hasRequiredSecret, notes } = one;
  const lines = ['  {', ...(one.comment === undefined ? [] : comment(one.comment, '    '))];
  for (const [key, value] of Object.entries(definitionOf(one, read)) as [string, Printed][]) {
    if (key === 'primaryKey') lines.push(...keylessNote(one).flatMap((note) => comment(note, '    ')));
    if (key === 'exclude')
      lines.push(
        '    // The names suggest secrets, so neither the API nor the admin area shows these columns. Remove names that are not secret.',
      );
    if (key === 'columns' || key === 'foreignKeys') {
      const block = Object.entries(value as object).map(
        ([name, column]) => `      ${name}: ${print(column as Printed)},`,
      );
      if (key === 'columns') block.push(...notes.flatMap((note) => comment(note, '      ')));
      lines.push(...(block.length > 0 ? [`    ${key}: {`, ...block, '    },'] : [`    ${key}: {},`]));
    } else lines.push(`    ${key}: ${print(value)},`);
    if (key === 'exclude' && isAddable && hasRequiredSecret)
      lines.push(
        '    // A new record needs one of them. To add records in the admin area, remove it from admin.exclude, and allow add.',
      );
  }
  return [...lines, '  },'].join('\n');
}

/** A label with the name of a person, which says more than the title that the admin area would choose; undefined without one. */
function nameLabel({ columns }: IntrospectedResource): string | undefined {
  const texts = columns
    .filter(({ definition: { type, choices } }) => (type === 'string' || type === 'text') && !choices)
    .map(({ name }) => name);
  const find = (pattern: RegExp): string | undefined => texts.find((name) => pattern.test(name));
  if (texts.includes('name')) return undefined;
  const whole = find(/^(full|display)_?name$/);
  const first = find(/^(first_?name|forename|given_?name)$/);
  const last = find(/^(last_?name|surname|family_?name)$/);
  return whole ?? (first && last && `{${first}} {${last}}`);
}

/** The options of the admin area that follow from an introspection; undefined if there are none. */
function adminOf(one: IntrospectedResource): Record<string, Printed> | undefined {
  const { secrets, isAddable, hasRequiredSecret, keyless } = one;
  const label = keyless ? undefined : nameLabel(one);
  const options = {
    ...(isAddable && !hasRequiredSecret ? {} : { allow: ['change', 'delete'] }),
    ...(secrets.length > 0 ? { exclude: secrets } : {}),
    ...(label === undefined ? {} : { label }),
  };
  return Object.keys(options).length > 0 ? options : undefined;
}

/** The methods of a table that is only read, or whose records cannot be added; undefined for all, and for a view. */
function methodsOf({ isView, isReadOnly, isAddable }: IntrospectedResource): readonly string[] | undefined {
  if (isView) return undefined;
  if (isReadOnly) return ['GET'];
  return isAddable ? undefined : ['GET', 'PUT', 'DELETE'];
}

const READERS: Readonly<Record<AccessLevel, string>> = {
  default: 'Everyone',
  user: 'Every user',
  admin: 'Only admins',
};

/** The model of the users, which the levels need. */
const USERS = `  {
    // Who can log in. This table is new: \`npx vitrine schema --diff\` prints its SQL.
    model: 'user',
    columns: {
      username: { type: 'string', unique: true },
      password: { type: 'password' },
      active: { type: 'boolean', default: true },
      admin: { type: 'boolean', default: false },
    },
    read: 'admin',
    access: 'admin',
    exclude: ['password'],
  },`;

interface PrintOptions {
  /** Whether to check the file with the types of the package, which makes it TypeScript only. */
  readonly isTypeScript?: boolean | undefined;
  /** Who may read the resources; undefined leaves that to the setting READ. */
  readonly read?: AccessLevel | undefined;
  /** Whether to add a user model. */
  readonly withUsers?: boolean;
}

/** The text of the registry file. Without types it is valid JavaScript and TypeScript. */
export function printRegistry(
  { resources, notes, remarks }: Introspection,
  { isTypeScript, read, withUsers }: PrintOptions = {},
): string {
  const users = withUsers ? '' : ', and add a user model';
  const head = [
    '// Generated by `vitrine introspect`. Serve it with SCHEMA=check, which never changes the database.',
    '//',
    `// ${READERS[read ?? 'default']} may read these tables, and no one may write. To allow writing, set access: 'user' or 'admin'${users}.`,
    ...(notes.length + remarks.length > 0 ? ['//'] : []),
    ...[...notes, ...remarks].flatMap((note) => comment(note, '')),
  ];
  const types = isTypeScript ? ["import type { Resource } from 'vitrine';", ''] : [];
  const end = isTypeScript ? '] as const satisfies readonly Resource[];' : '];';
  const printed = [...(withUsers ? [USERS] : []), ...resources.map((one) => printResource(one, read))];
  return [...head, '', ...types, 'export default [', ...printed, end, ''].join('\n');
}
