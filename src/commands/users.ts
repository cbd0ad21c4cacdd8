import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { readSettings } from '../config.ts';
import { StartError } from '../errors.ts';
import { shown } from '../http/observability/log-text.ts';
import { UTF8_FATAL } from '../http/message/text-decoding.ts';
import { parse, print, UsageError } from './command.ts';
import { withService } from './session.ts';

const HELP = `
Usage: vitrine user add NAME [--admin] [--set COLUMN=VALUE]...
       vitrine user password NAME
       vitrine user list

Creates a user, sets a user's password, or lists the users: those of the user model (see USER_MODEL).
A password is asked for on a terminal, and else read from standard input.

Options
  --admin             the user may do what admins may
  --set COLUMN=VALUE  fills a further column; may be given again
  --help              show this
`;

const OPTIONS = { admin: { type: 'boolean' }, set: { type: 'string', multiple: true } } as const;

/** Reads a password: typed twice without echo on a terminal, else all of standard input but the last line break. */
async function readPassword(): Promise<string> {
  if (!process.stdin.isTTY) {
    const chunks: Buffer[] = [];
    for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
    try {
      return UTF8_FATAL.decode(Buffer.concat(chunks)).replace(/\r?\n$/, '');
    } catch {
      throw new StartError('The password is not UTF-8.');
    }
  }
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const ask = async (prompt: string): Promise<string> => {
    // The terminal stops to echo before it asks: what is typed or pasted at once must not be seen either.
    const terminal = createInterface({ input: process.stdin, output: silent, terminal: true });
    process.stderr.write(prompt);
    const answer = await terminal.question('').catch(() => {
      throw new StartError('No password was given.'); // Ctrl-C or Ctrl-D
    });
    terminal.close();
    process.stderr.write('\n');
    return answer;
  };
  const password = await ask('Password: ');
  if ((await ask('Again: ')) !== password) throw new StartError('The two passwords differ.');
  return password;
}

function parseSets(sets: readonly string[]): Map<string, string> {
  const values = new Map<string, string>();
  for (const set of sets) {
    const equals = set.indexOf('=');
    if (equals < 1) throw new UsageError(`--set ${set}: give COLUMN=VALUE`);
    const column = set.slice(0, equals);
    if (values.has(column)) throw new UsageError(`--set ${column} is said twice`);
    values.set(column, set.slice(equals + 1));
  }
  return values;
}

/** `vitrine user`: the users, from the command line. */
export async function users(words: readonly string[]): Promise<void> {
  const given = parse(words, OPTIONS, HELP);
  if (!given) return;
  const { admin = false, set: sets = [] } = given.values;
  const settings = readSettings(process.env);
  const [action = '', name, ...rest] = given.positionals;
  const takesName = action === 'add' || action === 'password';
  if (!takesName && action !== 'list') throw new UsageError('Expected add, password or list');
  if (takesName ? name === undefined || rest.length > 0 : name !== undefined) {
    throw new UsageError(takesName ? `"user ${action}" takes one NAME` : '"user list" takes no name');
  }
  if (action !== 'add' && (admin || sets.length > 0))
    throw new UsageError('--admin and --set are options of "user add"');
  const values = parseSets(sets);
  // Only the first user can be one of a database that is still to be made.
  const schema = action === 'add' ? settings.schema : 'check';
  await withService({ ...settings, schema }, async ({ users: stored }) => {
    if (!stored) throw new StartError('The registry has no user model.');
    if (action === 'list') {
      for (const { name: found, active, admin: isAdmin } of await stored.list()) {
        print([shown(found), ...(isAdmin ? ['admin'] : []), ...(active ? [] : ['inactive'])].join(' '));
      }
    } else if (action === 'add') await stored.add(name ?? '', await readPassword(), admin, values);
    else if (await stored.find(name ?? '')) await stored.setPassword(name ?? '', await readPassword());
    else throw new StartError(`There is no user ${name}.`);
  });
}
