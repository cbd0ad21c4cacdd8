import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of the repository, with a slash. */
export const REPOSITORY = fileURLToPath(new URL('..', import.meta.url));

/** The SQL of a file of the Chinook example, without the commands of psql that create and enter a database. */
export const chinookSql = (name: string): string =>
  readFileSync(join(REPOSITORY, 'examples/chinook', name), 'utf8')
    .split('\n')
    .filter((line) => !/^(\\|(drop|create) database\b)/i.test(line))
    .join('\n');
