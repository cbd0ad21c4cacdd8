// Who may do what, among all for whom a registry says it: anyone, the active users, the admins and the users of each role.
import type { Column } from '../../db/schema/model.ts';
import { hasNaturalKey, isKeyPart } from '../../db/schema/model.ts';
import type { Action } from '../definition/roles.ts';
import { ADMIN, ADMIN_AREA, ANYONE, ofRole, ofRoleInArea, USER, type Access } from './access.ts';
import type { ResourceView } from './resource-view.ts';
import { withoutMe, type Grant } from './rights.ts';

/** Those who share an access. */
export interface Subject {
  readonly name: string;
  readonly access: Access;
  /** What these may do, the subject may do as well. */
  readonly includes?: Subject;
}

/** What a subject may do with the records that match one of the rules; with all records if `rows` is undefined. */
export interface Right {
  readonly who: string;
  readonly rows: readonly string[] | undefined;
}

const EVERYONE: Subject = { name: 'anyone', access: ANYONE };
const USERS: Subject = { name: 'users', access: USER, includes: EVERYONE };
const ADMINS: Subject = { name: 'admins', access: ADMIN, includes: USERS };

/** The name of a role, beside those of the other subjects. */
const nameOf = (role: string): string =>
  ['users', 'admins', 'owner', 'nobody'].includes(role) ? `role ${role}` : role;

/** The subjects of the API. */
export const apiSubjects = (roles: readonly string[]): readonly Subject[] => [
  EVERYONE,
  USERS,
  ADMINS,
  ...roles.toSorted().map((role) => ({ name: nameOf(role), access: ofRole(role), includes: USERS })),
];

/** The subjects of the admin area. */
export const areaSubjects = (roles: readonly string[]): readonly Subject[] => [
  { name: ADMINS.name, access: ADMIN_AREA },
  ...roles.toSorted().map((role) => ({ name: nameOf(role), access: ofRoleInArea(role) })),
];

/** The names of the subjects whose rights another one has in the API. */
export const includedIn = (name: string): readonly string[] =>
  name === EVERYONE.name ? [] : name === USERS.name ? [EVERYONE.name] : [USERS.name, EVERYONE.name];

/** The rules of a grant, one of which a record must match. */
function alternatives({ rules: [first = [], ...others] }: Grant): readonly string[] {
  if (others.length === 0) return first;
  const groups = [first, ...others].map((texts) =>
    texts.length > 1 ? `(${texts.join(' or ')})` : texts.join(),
  );
  return [groups.join(' and ')];
}

type Rule = Grant['rules'][number];

/** Whether each record that matches one of the rules matches the other one. */
const isStricter = (rules: readonly Rule[], other: Rule): boolean =>
  rules.some((rule) => rule.every((text) => other.includes(text)));

/** Whether each record of a grant is one of the other grant. */
const isWithin = ({ rules }: Grant, other: Grant): boolean =>
  other.rules.every((rule) => isStricter(rules, rule));

/** @returns undefined for all records, and no rules for none */
function rowsOf(grants: readonly Grant[], { access }: Subject): readonly string[] | undefined {
  const own = access.key === ANYONE.key ? grants.map(withoutMe) : grants;
  const possible = own.filter(({ rules }) => rules.every((texts) => texts.length > 0));
  if (possible.some(({ rules }) => rules.length === 0)) return undefined;
  const widest = possible.filter(
    (grant, index) =>
      !possible.some(
        (other, at) => at !== index && isWithin(grant, other) && (at < index || !isWithin(other, grant)),
      ),
  );
  return [...new Set(widest.flatMap(alternatives))].toSorted();
}

/** Grants to change or delete records, of those that the access may read: others do not exist for it. */
export const ofReadable = (
  { isReadable, rights }: ResourceView,
  grants: readonly Grant[],
): readonly Grant[] =>
  isReadable
    ? grants.flatMap((grant) =>
        rights.read.map(({ rules }) => ({
          ...grant,
          rules: [...grant.rules, ...rules.filter((rule) => !isStricter(grant.rules, rule))],
        })),
      )
    : grants;

/** Who has some of the grants, without those whose rights follow from those of a more general subject. */
export function whoMay(
  subjects: readonly Subject[],
  grantsOf: (subject: Subject) => readonly Grant[],
): readonly Right[] {
  const rows = new Map(subjects.map((subject) => [subject, rowsOf(grantsOf(subject), subject)]));
  return [...rows].flatMap(([{ name, includes }, own]) => {
    const common = includes ? rows.get(includes) : [];
    return own?.length === 0 || own?.join('\0') === common?.join('\0') ? [] : [{ who: name, rows: own }];
  });
}

/** Whether the records are those that the caller owns. */
export const isOwn = ({ rows }: Right, owner: Column | undefined): boolean =>
  owner !== undefined && rows?.join() === `${owner.name}=$me`;

/** The grants by which an access reads a column. Every record has its key. */
export const readingGrants = ({ rights, model, output }: ResourceView, column: Column): readonly Grant[] =>
  output.includes(column)
    ? rights.read.filter(({ columns }) => column === model.primaryKey || columns.has(column))
    : [];

/** The grants by which an access sees a column: the answer to a write shows the record also to those who may not read it. */
export const showingGrants = (view: ResourceView, column: Column): readonly Grant[] => {
  const { isReadable, output, rights } = view;
  if (isReadable || !output.includes(column)) return readingGrants(view, column);
  return [...rights.create, ...rights.update];
};

/** The grants by which an access sets a column. Clients set a key only if the database does not make it, and never change it. */
export function settingGrants(
  { rights, model, readonly }: ResourceView,
  action: Extract<Action, 'create' | 'update'>,
  column: Column,
): readonly Grant[] {
  const isKey = column === model.primaryKey;
  const isFixed = action === 'update' && (isKey || isKeyPart(model, column));
  const isNaturalKey = hasNaturalKey(model) && !column.generated;
  if (isFixed || (isKey ? !isNaturalKey : readonly.has(column))) return [];
  return rights[action].filter(({ columns }) => columns.has(column));
}

/** What an access may do with a resource, and the columns that it sees or sets so. Undefined for nothing. */
export function allowedIn({ model, allows, output, settable, readonly }: ResourceView) {
  // Clients choose natural keys of new records.
  const isKey = (action: 'create' | 'update', column: Column): boolean =>
    column === model.primaryKey && (action === 'update' || column.hasDefault);
  const settableIn = (action: 'create' | 'update'): readonly Column[] =>
    [...settable[action]].filter((column) => !readonly.has(column) && !isKey(action, column));
  const allowed: Partial<Record<'read' | 'create' | 'update' | 'delete', readonly Column[]>> = {
    ...(allows.has('read') && { read: output }),
    ...(allows.has('create') && { create: settableIn('create') }),
    ...(allows.has('update') && { update: settableIn('update') }),
    ...(allows.has('delete') && { delete: [] }),
  };
  return Object.keys(allowed).length > 0 ? allowed : undefined;
}

/** The rules about rows of some grants of a resource; undefined for all records. */
export const rowsOfView = (
  { seenBy }: ResourceView,
  grants: readonly Grant[],
): readonly string[] | undefined => rowsOf(grants, { name: '', access: seenBy });
