// The column type of the registry for a column of the database.
import type { CatalogColumn } from '../../db/schema/catalog.ts';
import { ARRAY_TYPES, type ElementTypeName } from '../../db/types/array-types.ts';
import { COLUMN_TYPES, type TypeName } from '../../db/types/column-types.ts';
import type { ColumnType } from '../../db/types/column-type.ts';

/** The column types of the registry; `accepts` lists the PostgreSQL types of each. */
const TYPES = Object.entries(COLUMN_TYPES).filter(([name]) => name !== 'password') as [
  TypeName,
  ColumnType,
][];
const ARRAYS = Object.entries(ARRAY_TYPES) as [ElementTypeName, ColumnType][];

/** A column type of a registry: its name, and for an array that of its elements. */
export interface NamedType {
  readonly name: TypeName | 'array' | 'foreignKey';
  readonly of?: ElementTypeName;
  readonly type: ColumnType;
}

/** The simplest column type for a stored column; undefined when no type accepts it. */
export function typeFor({ type }: CatalogColumn): NamedType | undefined {
  if (type === 'text') return { name: 'text', type: COLUMN_TYPES.text };
  if (type === 'text[]') return { name: 'array', of: 'text', type: ARRAY_TYPES.text };
  const found = TYPES.find(([, { accepts }]) => accepts.includes(type));
  if (found) return { name: found[0], type: found[1] };
  const array = ARRAYS.find(([, { accepts }]) => accepts.includes(type));
  return array && { name: 'array', of: array[0], type: array[1] };
}
