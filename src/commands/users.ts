// `vitrine user`: adds and lists users, sets passwords, makes links to set them, ends sessions, and removes second factors.
import { randomBytes } from 'node:crypto';
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { links } from '../admin/web/admin-links.ts';
import { readSettings, type Settings } from '../config.ts';
import { StartError } from '../errors.ts';
import { shown } from '../http/observability/log-text.ts';
import { decodeUtf8 } from '../http/message/text-decoding.ts';
import { hostAndPort } from '../http/server/listener.ts';
import { counted } from '../messages.ts';
import type { User } from '../query/statements/user-statements.ts';
import { LINK_HOURS } from '../resources/users/password-links.ts';
import type { Prepared } from '../service.ts';
import { parse, print, printMessage, UsageError, type Io } from './command.ts';
import { withService } from './running-service.ts';

const HELP = `
Usage: vitrine user add NAME [--admin] [--set COLUMN=VALUE]... [--link]
       vitrine user password NAME
       vitrine user link NAME
       vitrine user sessions NAME [--end]
       vitrine user mfa NAME --reset
       vitrine user list

Creates a user, sets a user's password, prints a link with which the user sets it, lists or ends a user's sessions of the
admin area, removes a user's second factor, or lists the users of the user model (see USER_MODEL).
Prompts for the password on a terminal, and otherwise reads it from standard input.
A link works once, within ${LINK_HOURS} hours. It begins with the first origin of PUBLIC_URL, or else with HOST and PORT.

Options
  --admin             make the user an admin
  --set COLUMN=VALUE  set a further column; may be repeated
  --link              instead of reading a password, print a link to set it
  --end               end the sessions
  --reset             remove the second factor, so that the password is enough to log in
  --help              show this help
`;

const OPTIONS = {
  admin: { type: 'boolean' },
  set: { type: 'string', multiple: true },
  link: { type: 'boolean' },
  end: { type: 'boolean' },
  reset: { type: 'boolean' },
} as const;

/** The options of each action. */
const ACTIONS: Readonly<Record<string, readonly (keyof typeof OPTIONS)[]>> = {
  add: ['admin', 'set', 'link'],
  password: [],
  link: [],
  sessions: ['end'],
  mfa: ['reset'],
  list: [],
};

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

/** Prints a link with which the user sets the password. @throws StartError */
function printLink(io: Io, { passwordLinks }: Prepared, user: User | undefined, settings: Settings): void {
  if (!passwordLinks)
    throw new StartError('The table vitrine_secret is missing, or the database role may not use it.');
  if (!user?.active) throw new StartError(`The user ${shown(user?.name ?? '')} is not active.`);
  const { publicUrl, host, port } = settings;
  const [origin] = publicUrl;
  printMessage(
    io,
    `whoever has the link can set the password of ${shown(user.name)}: once, within ${LINK_HOURS} hours.`,
  );
  if (origin === undefined) printMessage(io, 'PUBLIC_URL is not set, so the link begins with HOST and PORT.');
  print(io, links.passwordLink(origin ?? `http://${hostAndPort(host, port)}`, passwordLinks.make(user)));
}

/** `vitrine user` */
export async function users(args: readonly string[], io: Io): Promise<void> {
  const parsed = parse(args, OPTIONS, HELP, io);
  if (!parsed) return;
  const { values: options } = parsed;
  const { admin = false, set: sets = [], link = false, end = false, reset = false } = options;
  const settings = readSettings(io.env);
  const [action = '', name = ''] = parsed.positionals;
  const allowed = Object.hasOwn(ACTIONS, action) ? ACTIONS[action] : undefined;
  if (!allowed) throw new UsageError('Expected add, password, link, sessions, mfa or list');
  const takesName = action !== 'list';
  if (parsed.positionals.length !== (takesName ? 2 : 1))
    throw new UsageError(takesName ? `"user ${action}" takes one NAME` : '"user list" takes no name');
  for (const option of Object.keys(options) as (keyof typeof OPTIONS)[])
    if (!allowed.includes(option)) throw new UsageError(`--${option} is not for "user ${action}"`);
  if (action === 'mfa' && !reset) throw new UsageError('"user mfa" needs --reset');
  const values = parseSets(sets);
  // Only `add` may create tables: it is the first command for a new database.
  const schema = action === 'add' ? settings.schema : 'check';
  const isListing = action === 'list' || (action === 'sessions' && !end);
  const command = isListing ? undefined : `user ${action} ${name}`;
  await withService({ ...settings, schema }, command, async (prepared) => {
    const { users: stored, sessions, secondFactors, recordEvent } = prepared;
    if (!stored) throw new StartError('The registry has no user model.');
    if (action === 'list') {
      for (const { name: found, active, admin: isAdmin, hasSecondFactor } of await stored.list()) {
        const facts = [isAdmin && 'admin', !active && 'inactive', hasSecondFactor && 'second-factor'];
        print(io, [shown(found), ...facts.filter((fact) => fact !== false)].join(' '));
      }
      return;
    }
    if (action === 'add') {
      const password = link ? randomBytes(32).toString('base64url') : await readPassword(io);
      await stored.add(name, password, admin, values);
      const added = `added the ${admin ? 'admin' : 'user'} ${shown(name)}`;
      if (!link) return print(io, added);
      printMessage(io, added);
      return printLink(io, prepared, await stored.find(name), settings);
    }
    const user = await stored.find(name);
    if (!user) throw new StartError(`There is no user ${shown(name)}.`);
    if (action === 'password') {
      await stored.setPassword(name, await readPassword(io));
      return print(io, `set the password of ${shown(name)}`);
    }
    if (action === 'mfa') {
      if (!(await secondFactors?.remove(user.id)))
        throw new StartError(`${shown(name)} has no second factor.`);
      await recordEvent('second-factor.reset', { detail: { of: user.name } });
      return print(io, `removed the second factor of ${shown(name)}`);
    }
    if (action === 'link') {
      printLink(io, prepared, user, settings);
      return recordEvent('password.link', { detail: { of: user.name } });
    }
    if (!sessions)
      throw new StartError('The table vitrine_session is missing, or the database role may not use it.');
    if (end) {
      const count = await sessions.endOthers(user);
      await recordEvent('session.ended', { detail: { sessions: count, of: user.name } });
      return print(io, `ended ${counted(count, 'session')} of ${shown(name)}`);
    }
    for (const { created, seen, address, agent } of await sessions.list(user))
      print(io, `since ${created} last used ${seen} from ${address} ${shown(agent)}`);
  });
}
