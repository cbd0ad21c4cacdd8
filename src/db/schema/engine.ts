// Recognizes databases that only resemble PostgreSQL, and refuses those that cannot keep what the service promises.
import { StartError } from '../../errors.ts';
import { raw } from '../fragment.ts';
import { createStatement, isTrue, number, oneCell, text } from '../rows.ts';

/** What runs behind the address. */
export interface Engine {
  /** What `version()` returns. */
  readonly version: string;
  /** As PostgreSQL counts: 140000 is 14. */
  readonly number: number;
  /** Whether the extension Citus distributes tables over servers. */
  readonly isCitus: boolean;
}

/** Citus has this table. */
const IS_CITUS = `to_regclass('pg_dist_partition') is not null`;

/** Written by YugabyteDB between its versions of PostgreSQL and of itself. */
const YUGABYTE = '-YB-';

export const ENGINE = createStatement(
  raw(`select version(), current_setting('server_version_num'), ${IS_CITUS}`),
  ([row]): Engine => ({
    version: text(row?.[0]) ?? '',
    number: number(row?.[1]),
    isCitus: isTrue(row?.[2]),
  }),
);

/**
 * Whether the rows of the relation `c` and of its partitions have `xmin`. Only the storage of PostgreSQL itself, `heap`, is known
 * to have it: its oid is 2, and a partitioned table has 0 or the storage of later partitions.
 */
export const HAS_XMIN = raw(`(version() !~ '${YUGABYTE}' and not (${IS_CITUS}) and case
    when c.relkind = 'p' then not exists (
      select from pg_partition_tree(c.oid) p join pg_class l on l.oid = p.relid
      where l.relkind = 'f' or l.relam not in (0, 2))
    else c.relkind in ('r', 'm') and c.relam = 2 end)`);

/** The identity of the cluster and of the database in it. Replicas have the same. */
export const IDENTITY = createStatement(
  raw(`select system_identifier || '/' || oid from pg_control_system(), pg_database
  where datname = current_database()`),
  oneCell(text),
);

/** The settings of a database that would change values on output. */
export const OUTPUT_SETTINGS = createStatement(
  raw(
    "select getdatabaseencoding(), current_setting('extra_float_digits')::int < 1, not current_setting('array_nulls')::bool",
  ),
  ([row]) => ({ encoding: text(row?.[0]), isRounded: isTrue(row?.[1]), lacksNulls: isTrue(row?.[2]) }),
);

const OLDEST = 140_000;

/** @throws StartError for another database than PostgreSQL, and for one that is too old */
export function requirePostgres({ version, number }: Engine): void {
  if (!version.startsWith('PostgreSQL '))
    throw new StartError(
      `The database is ${version}. The service needs PostgreSQL: it relies on its catalog, xmin and pg_current_xact_id().`,
    );
  if (!(number >= OLDEST)) throw new StartError(`The database is ${version}. The service needs 14 or later.`);
}

/** Warns of an engine on which the service was never tested. */
export function engineWarnings({ version, isCitus }: Engine): string[] {
  const name = version.includes(YUGABYTE) ? 'YugabyteDB' : isCitus ? 'Citus' : undefined;
  return name === undefined
    ? []
    : [
        `the service was never tested on ${name}: try every method before you rely on it. ETags are made from the content of rows, because the engine has no xmin for them`,
      ];
}
