// Checked by `npm run typecheck`: registries that the types accept, and errors that they find.
import { Message, type CustomAction } from '../src/index.ts';
import { message, user } from '../src/resources/registry.ts';
import type { Registry, Resource, Row } from '../src/resources/definition/resource.ts';

export const row: Row<typeof message> = { id: 1, user_id: 2, content: 'x', pub_date: '2024-01-01 00:00:00' };
export const person: Row<typeof user> = { id: 1, username: 'x', join_date: 'y', active: true, admin: false };
// @ts-expect-error an excluded column is not in the record
export const secret = person.password;
// @ts-expect-error an id is a number
export const text: string = row.id;

// @ts-expect-error a misspelled key of a resource
export const misspelt = { model: 'a', columns: {}, acess: 'user' } satisfies Resource;
// @ts-expect-error a misspelled key of a column
export const column = { model: 'a', columns: { x: { type: 'text', maxlen: 3 } } } satisfies Resource;
// @ts-expect-error a default of another type
export const fallback = { model: 'a', columns: { x: { type: 'text', default: 1 } } } satisfies Resource;
// @ts-expect-error choices of another type
export const choices = { model: 'a', columns: { x: { type: 'integer', choices: ['x'] } } } satisfies Resource;
// @ts-expect-error choices of another type
export const marks = { model: 'a', columns: { x: { type: 'text', choices: [1] } } } satisfies Resource;

const run: CustomAction['run'] = async ({ records, operations, values: { text: given } }) => {
  for (const { id } of records) await operations.update('a', Number(id), { x: given });
  if (records.length === 0) throw new Message('must not be empty', 'text');
};
const close = {
  name: 'close',
  title: 'Close',
  on: ['record'],
  fields: { text: { type: 'text' } },
  run,
} as const;
export const actions = { model: 'a', columns: {}, admin: { actions: [close] } } satisfies Resource;
// @ts-expect-error a misspelled key of an action
export const asked = { ...close, confrm: 'Sure?' } satisfies CustomAction;
// @ts-expect-error a place that no action can have
export const placed = { ...close, on: ['page'] } satisfies CustomAction;

const owner = [{ model: 'a', columns: { x: { type: 'string' } }, owner: 'y' }] satisfies Resource[];
// @ts-expect-error the owner is not a column
export const checkedOwner = owner satisfies Registry<typeof owner>;

const textOwner = [
  message,
  user,
  { model: 'a', columns: { x: { type: 'string' } }, owner: 'x' },
] satisfies Resource[];
// @ts-expect-error the owner is not a foreign key
export const checkedTextOwner = textOwner satisfies Registry<typeof textOwner>;

const exclude = [{ model: 'a', columns: { x: { type: 'string' } }, exclude: ['y'] }] satisfies Resource[];
// @ts-expect-error an excluded name is not a column
export const checkedExclude = exclude satisfies Registry<typeof exclude>;

const references = [
  { model: 'a', columns: { x: { type: 'foreignKey', references: 'b' } } },
] satisfies Resource[];
// @ts-expect-error the referenced model does not exist
export const checkedReferences = references satisfies Registry<typeof references>;

const ordering = [{ model: 'a', columns: { x: { type: 'string' } }, ordering: '-x,y' }] satisfies Resource[];
// @ts-expect-error the ordering is not a column
export const checkedOrdering = ordering satisfies Registry<typeof ordering>;

const unordered = [{ model: 'a', columns: { x: { type: 'json' } }, ordering: 'x' }] satisfies Resource[];
// @ts-expect-error an ordering by a column that cannot be sorted by
export const checkedUnordered = unordered satisfies Registry<typeof unordered>;

const path = [
  message,
  user,
  { model: 'a', columns: { f: { type: 'foreignKey', references: 'message' } }, ordering: 'f__user__nam' },
] satisfies Resource[];
// @ts-expect-error the ordering is not a column of the referenced model
export const checkedPath = path satisfies Registry<typeof path>;

const beyond = [
  user,
  { model: 'a', columns: { f: { type: 'foreignKey', references: 'user' } }, ordering: '-id,f__username__x' },
] satisfies Resource[];
// @ts-expect-error the ordering follows a column that is not a foreign key
export const checkedBeyond = beyond satisfies Registry<typeof beyond>;

const right = [
  {
    model: 'a',
    columns: { x: { type: 'string', null: true }, f: { type: 'foreignKey', references: 'b' } },
    ordering: '-x,id,f__x,-f_id__id,f_id',
    exclude: ['x'],
    readonly: ['f'],
  },
  { model: 'b', columns: { x: { type: 'text', null: true } }, primaryKey: { type: 'uuid' } },
] satisfies Resource[];
export const checkedRight = right satisfies Registry<typeof right>;
type B = Extract<(typeof right)[number], { model: 'b' }>;
export const nullable: Row<B> = { id: 'a uuid', x: null };
type A = Extract<(typeof right)[number], { model: 'a' }>;
export const related: Row<A, (typeof right)[number]> = { id: 1, f_id: 'a uuid' };
