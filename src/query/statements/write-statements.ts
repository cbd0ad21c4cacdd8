// The statements that insert, update and delete records of a resource. The SQL for one record is built once per shape.
import { boundText, EMPTY, Parameters, sql, value, valueList } from '../../db/fragment.ts';
import type { Fragment } from '../../db/fragment.ts';
import { createStatement, isTrue, type Statement } from '../../db/rows.ts';
import { reference, typed } from '../../db/schema/model.ts';
import { source } from '../source.ts';
import type { Author, Change } from './change.ts';
import { bindCheck, checkShape, type Check } from './check-statements.ts';
import { authorSql } from './history-sql.ts';
import { insertManyStatement, type InsertMany } from './insert-many.ts';
import { ROOT } from '../plan.ts';
import { createSqlCache } from '../../db/sql-cache.ts';
import { rereadOf, type Reread } from './reread-sql.ts';
import {
  deleteSql,
  INSERTED_CELLS,
  insertSql,
  isKey,
  readDeleted,
  readInserted,
  readUpdated,
  UPDATED_CELLS,
  updateSql,
} from './write-sql.ts';
import type { BoundWrite, WriteTarget, WrittenCells } from './write-sql.ts';

/** What to write. */
export interface Write {
  /** The record's key; undefined for an INSERT. */
  readonly id?: string;
  readonly changes?: readonly Change[];
  readonly checks?: readonly Check[];
  /** Null for a command. */
  readonly author: Author | null;
  /** The versions of `If-Match`; undefined without the header, or if any version matches. */
  readonly versions?: readonly string[] | undefined;
}

/** What the SQL depends on. JSON keys have no spaces or punctuation, which separate the parts. */
function writeShape(
  kind: string,
  { changes = [], checks = [], versions }: Write,
  { precondition, owner }: BoundWrite,
): string {
  const written = changes.map(({ column: { key }, value: text, hash }) =>
    hash === undefined || text === null ? key : `${key}?`,
  );
  return `${kind} ${versions !== undefined} ${owner !== undefined} ${written.join()} ${checks.map(checkShape).join()} ${precondition && boundText(precondition)}`;
}

/** The writing statements of a resource. */
export class WriteStatements {
  readonly #target: WriteTarget;
  readonly #reread: Reread | undefined;
  readonly #sql = createSqlCache();

  constructor(target: WriteTarget) {
    this.#target = target;
    this.#reread = rereadOf(target);
  }

  /** POST: inserts the record if all checks and the precondition hold. */
  readonly insert = (write: Write) =>
    this.#withReread(this.#statement('insert', write, insertSql, readInserted), INSERTED_CELLS);

  /** POST of several records: inserts all of them, or none. */
  readonly insertMany = (many: InsertMany) => insertManyStatement(this.#target, many, this.#reread);

  /** PUT: finds and locks the row, makes the checks, and updates it if they hold and a column differs. */
  readonly update = (write: Write) =>
    this.#withReread(this.#statement('update', write, updateSql, readUpdated), UPDATED_CELLS, write.id);

  /** DELETE: finds and locks the row, makes the checks, and deletes it if they hold. */
  readonly delete = (write: Write) => this.#statement('delete', write, deleteSql, readDeleted);

  /**
   * Asks whether a record belongs to the author, to explain why a write did not find it. The result is undefined if there is no
   * such record.
   * @returns undefined if records have no owner
   */
  ownership(id: string, author: Author): Statement<boolean | undefined> | undefined {
    const { model, owner } = this.#target;
    if (!owner) return undefined;
    const isOwner = sql`coalesce(${reference(ROOT, owner)} = ${typed(author.id, owner)}, false)`;
    const rows = sql`${source(model, ROOT)} where ${isKey(model, value(id))}`;
    return createStatement(sql`select ${isOwner} from ${rows}`, ([row]) => row && isTrue(row[0]));
  }

  /** Makes a statement read again what it has written, if triggers may have changed it. */
  #withReread<T>(statement: Statement<T>, cells: WrittenCells, id?: string): Statement<T> {
    const reread = this.#reread;
    return reread ? { ...statement, followUp: (rows) => reread(rows, cells, id) } : statement;
  }

  /** The statement of a write: the SQL of its shape, and its values. */
  #statement<T>(
    kind: string,
    write: Write,
    build: (target: WriteTarget, write: BoundWrite) => Fragment,
    decode: Statement<T>['decode'],
  ): Statement<T> {
    const parameters = new Parameters();
    const bound = this.#bind(write, parameters);
    const shape = writeShape(kind, write, bound);
    const text = this.#sql(shape, () => parameters.compile(build(this.#target, bound)));
    const { id } = write;
    const record = id === undefined ? undefined : `${this.#target.model.table} ${id}`;
    return { text, values: parameters.values, decode, record };
  }

  /** PostgreSQL refuses a parameter that the SQL does not use, so only those that it uses are added. */
  #bind({ id, changes, checks = [], author, versions }: Write, parameters: Parameters): BoundWrite {
    const { owner, recording } = this.#target;
    const { add } = parameters;
    return {
      id: id === undefined ? undefined : add(id),
      changes: (changes ?? []).map(({ column, value: text, hash }) => ({
        column,
        value: add(hash ?? text),
        digest: hash === undefined || text === null ? undefined : text.split(':').map(add),
      })),
      checks: checks.map((check) => bindCheck(check, add)),
      precondition: author?.precondition && parameters.take(author.precondition),
      versions: versions && parameters.take(valueList(versions)),
      owner: owner && author && id !== undefined ? add(author.id) : undefined,
      // An UPDATE without changes records nothing.
      author:
        recording && !(id !== undefined && changes?.length === 0)
          ? parameters.take(authorSql(author))
          : EMPTY,
    };
  }
}
