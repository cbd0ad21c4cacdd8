// `vitrine user`: adds users, sets passwords and lists users.
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { readSettings } from '../config.ts';
import { StartError } from '../errors.ts';
import { shown } from '../http/observability/log-text.ts';
import { decodeUtf8 } from '../http/message/text-decoding.ts';
import { parse, print, UsageError, type Io } from './command.ts';
import { withService } from './running-service.ts';

const HELP = `
Usage: vitrine user add NAME [--admin] [--set COLUMN=VALUE]...
       vitrine user password NAME
       vitrine user list

Creates a user, sets a user's password, or lists the users of the user model (see USER_MODEL).
Prompts for the password on a terminal, and otherwise reads it from standard input.

Options
  --admin             make the user an admin
  --set COLUMN=VALUE  set a further column; may be repeated
  --help              show this help
`;

const OPTIONS = { admin: { type: 'boolean' }, set: { type: 'string', multiple: true } } as const;

/** Reads a password: on a terminal typed twice without echo, else all of standard input without the final line break. */
async function readPassword({ stdin, stderr }: Io): Promise<string> {
  if (!stdin.isTTY) {
    const chunks: Buffer[] = [];
    for await (const chunk of stdin) chunks.push(chunk as Buffer);
    const password = decodeUtf8(Buffer.concat(chunks));
    if (password === undefined) throw new StartError('The password is not valid UTF-8.');
    return password.replace(/\r?\n$/, '');
  }
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const ask = async (prompt: string): Promise<string> => {
    // Echo must be off before the prompt appears, so that early or pasted input stays hidden.
    const terminal = createInterface({ input: stdin, output: silent, terminal: true });
    stderr.write(prompt);
    const answer = await terminal.question('').catch(() => {
      throw new StartError('No password was entered.'); // Ctrl-C or Ctrl-D
    });
    terminal.close();
    stderr.write('\n');
    return answer;
  };
  const password = await ask('Password: ');
  if ((await ask('Repeat password: ')) !== password) throw new StartError('The passwords do not match.');
  return password;
}

/** @throws UsageError for a --set without `=` or for a repeated column */
function parseSets(sets: readonly string[]): Map<string, string> {
  const values = new Map<string, string>();
  for (const set of sets) {
    const equals = set.indexOf('=');
    if (equals < 1) throw new UsageError(`--set ${set}: expected COLUMN=VALUE`);
    const column = set.slice(0, equals);
    if (values.has(column)) throw new UsageError(`--set ${column} is given twice`);
    values.set(column, set.slice(equals + 1));
  }
  return values;
}

/** `vitrine user` */
export async function users(args: readonly string[], io: Io): Promise<void> {
  const parsed = parse(args, OPTIONS, HELP, io);
  if (!parsed) return;
  const { admin = false, set: sets = [] } = parsed.values;
  const settings = readSettings(io.env);
  const [action = '', name, ...rest] = parsed.positionals;
  const takesName = action === 'add' || action === 'password';
  if (!takesName && action !== 'list') throw new UsageError('Expected add, password or list');
  if (takesName ? name === undefined || rest.length > 0 : name !== undefined) {
    throw new UsageError(takesName ? `"user ${action}" takes one NAME` : '"user list" takes no name');
  }
  if (action !== 'add' && (admin || sets.length > 0))
    throw new UsageError('--admin and --set are only for "user add"');
  const values = parseSets(sets);
  // Only `add` may create tables: it is the first command for a new database.
  const schema = action === 'add' ? settings.schema : 'check';
  const command = action === 'list' ? undefined : `user ${action} ${name}`;
  await withService({ ...settings, schema }, command, async ({ users: stored }) => {
    if (!stored) throw new StartError('The registry has no user model.');
    if (action === 'list') {
      for (const { name: found, active, admin: isAdmin } of await stored.list()) {
        print(io, [shown(found), ...(isAdmin ? ['admin'] : []), ...(active ? [] : ['inactive'])].join(' '));
      }
    } else if (action === 'add') {
      await stored.add(name ?? '', await readPassword(io), admin, values);
      print(io, `added the ${admin ? 'admin' : 'user'} ${shown(name ?? '')}`);
    } else if (await stored.find(name ?? '')) {
      await stored.setPassword(name ?? '', await readPassword(io));
      print(io, `set the password of ${shown(name ?? '')}`);
    } else throw new StartError(`There is no user ${name}.`);
  });
}
