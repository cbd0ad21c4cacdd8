// Checks the names by which the resources of a registry refer to each other.
import type { Settings } from '../../config.ts';
import { fieldOf, keyFieldOf, tableOf, typeOf } from '../../db/schema/model-definition.ts';
import type { FieldErrors } from '../../errors.ts';
import { checkOrderingLength, parseOrdering } from '../../query/parse/grammar.ts';
import { checkColumn, checkValues, type Report } from './check-column.ts';
import { LOGIN_COLUMNS, neededUserModel } from '../serve/served-resource.ts';
import { isKeyTypeKnown, isTableKnown, isUncertain, type PartialResource } from './partial-resource.ts';

export type AccessSettings = Pick<Settings, 'access' | 'userModel'>;

export const OWNER_FAULT = 'must name a foreign key';

/** Checks what needs all resources: tables, foreign keys, owners and the user model. @returns all faults */
export function checkTogether(parts: readonly PartialResource[], settings: AccessSettings): string[] {
  const faults: string[] = [];
  const resources = parts.map(({ resource }) => resource);
  const keys = new Map(parts.map((part) => [part.resource.model, isKeyTypeKnown(part)]));
  const tables = new Set<string>();
  for (const part of parts) {
    const { resource, isFaulty } = part;
    const { model, columns, ordering } = resource;
    const report: Report = (key, text) => faults.push(`${model}: ${key}: ${text}`);
    if (isTableKnown(part)) {
      if (tables.has(tableOf(resource))) report('table', 'another resource has this table');
      tables.add(tableOf(resource));
    }
    const errors: FieldErrors = {};
    checkOrderingLength(ordering === undefined ? undefined : parseOrdering(ordering), errors);
    for (const text of errors['ordering'] ?? []) report('ordering', text);
    checkFields(part, report);
    for (const [name, column] of Object.entries(columns)) {
      if (column.type !== 'foreignKey') continue;
      const isKeyKnown = keys.get(column.references);
      if (isKeyKnown === undefined && !isFaulty(`columns.${name}.references`))
        report(`columns.${name}.references`, `there is no model ${JSON.stringify(column.references)}`);
      checkValues({ ...column }, isKeyKnown ? typeOf(column, resources) : undefined, (key, text) =>
        report(`columns.${name}.${key}`, text),
      );
    }
    checkOwner(part, settings.userModel, keys, report);
  }
  const needed = neededUserModel(resources, settings);
  if (needed) checkUserModel(parts, needed, settings.userModel, faults);
  return faults;
}

/** PostgreSQL's system columns, which every table has. */
const SYSTEM_FIELDS = ['tableoid', 'xmin', 'cmin', 'xmax', 'cmax', 'ctid'];

/** Reports columns that share one column of the database. */
function checkFields({ resource, isFaulty, untyped }: PartialResource, report: Report): void {
  const fields = new Map(SYSTEM_FIELDS.map((field) => [field, 'PostgreSQL itself']));
  if (!isFaulty('primaryKey') && !isFaulty('primaryKey.column')) {
    const field = keyFieldOf(resource);
    if (fields.has(field)) report('primaryKey.column', `${field} is a system column of PostgreSQL`);
    fields.set(field, 'the primary key');
  }
  for (const [name, column] of Object.entries(resource.columns)) {
    // Without a valid name or an explicit `column`, the column's name in the database is unknown.
    const isUnnamed = isFaulty(`columns.${name}`) && !untyped.has(name) && column.column === undefined;
    if (isUnnamed || isFaulty(`columns.${name}.column`)) continue;
    const field = fieldOf(name, column);
    const other = fields.get(field);
    if (other) report(`columns.${name}`, `its database column ${field} is already used by ${other}`);
    fields.set(field, name);
  }
}

function checkOwner(
  part: PartialResource,
  userModel: string,
  models: ReadonlyMap<string, unknown>,
  report: Report,
): void {
  const { resource, isFaulty } = part;
  const { owner, columns } = resource;
  if (owner === undefined || isFaulty('owner')) return;
  const column = columns[owner];
  if (!column) return;
  if (column.type === 'foreignKey') {
    if (column.references !== userModel && models.has(column.references))
      report('owner', `must be a foreign key to the user model, ${userModel}`);
  } else if (!isUncertain(part, owner)) report('owner', OWNER_FAULT);
}

function checkUserModel(
  parts: readonly PartialResource[],
  needed: string,
  userModel: string,
  faults: string[],
): void {
  const users = parts.find(({ resource }) => resource.model === userModel);
  if (!users) {
    faults.push(`the registry: there is no user model "${userModel}" (USER_MODEL), and ${needed}`);
    return;
  }
  if (users.isFaulty('columns')) return;
  for (const [name, types] of Object.entries(LOGIN_COLUMNS)) {
    const column = users.resource.columns[name];
    const isTyped = users.untyped.has(name) || types.includes(column?.type ?? '');
    const isUnique = name === 'username';
    const fits =
      isTyped && (!isUnique || column?.unique === true || users.isFaulty(`columns.${name}.unique`));
    const report: Report = (key, fault) => faults.push(`${userModel}: columns.${name}${key}: ${fault}`);
    if (!column) report('', 'the user model must have this column');
    else if (!fits) {
      report('', isUnique ? 'must be a string or text with unique: true' : `must be of type '${types[0]}'`);
      // The required type is known, so the other keys can be checked against it.
      if (!isTyped) checkColumn({ ...column, type: types[0] }, (key, fault) => report(`.${key}`, fault));
    }
  }
}
