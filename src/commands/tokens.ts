// `vitrine token`: makes, lists and revokes tokens of the API.
import { readSettings } from '../config.ts';
import { StartError, type FieldErrors } from '../errors.ts';
import { shown } from '../http/observability/log-text.ts';
import { DEFAULT_DAYS, expiryAfter, MAX_TOKENS, readScope } from '../resources/users/tokens.ts';
import type { Prepared } from '../service.ts';
import { parse, print, printMessage, UsageError, type Io } from './command.ts';
import { withService } from './running-service.ts';

const HELP = `
Usage: vitrine token add USER [--resources NAME,...] [--methods METHOD,...] [--expires DAYS] [--label TEXT]
       vitrine token list [USER]
       vitrine token revoke ID

Makes a token with which a program uses the API as this user, lists the latest tokens, or revokes one.
"add" prints the token on standard output. It is stored nowhere, so it cannot be shown again.

Options
  --resources NAME,...  allow only these resources
  --methods METHOD,...  allow only these methods: GET, POST, PUT, DELETE
  --expires DAYS        after so many days, such as 30d, or "never" (${DEFAULT_DAYS}d)
  --label TEXT          what the token is for
  --help                show this help
`;

const OPTIONS = {
  resources: { type: 'string' },
  methods: { type: 'string' },
  expires: { type: 'string' },
  label: { type: 'string' },
} as const;

const MAX_DAYS = 36_500;

/** @throws UsageError */
function parseExpiry(text = `${DEFAULT_DAYS}d`): string | null {
  if (text === 'never') return null;
  const days = Number(/^(\d{1,6})d$/.exec(text)?.[1] ?? 0);
  if (days < 1 || days > MAX_DAYS)
    throw new UsageError(`--expires ${text}: expected 1d to ${MAX_DAYS}d, or never`);
  return expiryAfter(days);
}

const splitNames = (names: string | undefined): string[] | undefined =>
  names?.split(',').map((name) => name.trim());

/** A token in one line. */
function lineOf({
  id,
  user,
  label,
  scope,
  expires,
  used,
  isValid,
}: Awaited<ReturnType<NonNullable<Prepared['tokens']>['list']>>[number]): string {
  return [
    id,
    user === null ? '(deleted)' : shown(user),
    `resources=${scope.models?.join() ?? '*'}`,
    `methods=${scope.methods?.join() ?? '*'}`,
    expires === null ? 'never expires' : `expires ${expires}`,
    used === null ? 'never used' : `used ${used}`,
    ...(isValid ? [] : ['not valid']),
    ...(label === '' ? [] : [`label ${JSON.stringify(label)}`]),
  ].join(' ');
}

/** `vitrine token` */
export async function tokens(args: readonly string[], io: Io): Promise<void> {
  const parsed = parse(args, OPTIONS, HELP, io);
  if (!parsed) return;
  const { values, positionals } = parsed;
  const [action = '', name, ...rest] = positionals;
  if (!['add', 'list', 'revoke'].includes(action)) throw new UsageError('Expected add, list or revoke');
  if (rest.length > 0 || (name === undefined && action !== 'list'))
    throw new UsageError(
      action === 'list'
        ? '"token list" takes at most one USER'
        : `"token ${action}" takes one ${action === 'add' ? 'USER' : 'ID'}`,
    );
  if (action !== 'add' && Object.keys(values).length > 0)
    throw new UsageError(`--${Object.keys(values)[0]} is only for "token add"`);
  const expires = parseExpiry(values.expires);
  const { label = '' } = values;
  if (label.length > 255 || label.includes('\0'))
    throw new UsageError('--label must have at most 255 characters, and no NUL character');
  const settings = readSettings(io.env);
  // Only `add` may create tables.
  const wanted = { ...settings, schema: action === 'add' ? settings.schema : ('check' as const) };
  const command = action === 'list' ? undefined : `token ${action} ${name}`;
  await withService(wanted, command, async ({ users, tokens: stored, resources, recordEvent }) => {
    if (!users) throw new StartError('The registry has no user model.');
    if (!stored)
      throw new StartError('The table vitrine_token is missing, or the database role may not use it.');
    if (action === 'revoke') {
      if (!(await stored.revoke(name ?? ''))) throw new StartError(`There is no token ${name}.`);
      await recordEvent('token.revoked', { detail: { token: name } });
      return print(io, `revoked the token ${name}`);
    }
    const user = name === undefined ? undefined : await users.find(name);
    if (name !== undefined && !user) throw new StartError(`There is no user ${name}.`);
    if (action === 'list') {
      for (const token of await stored.list(user?.id)) print(io, lineOf(token));
      return;
    }
    const errors: FieldErrors = {};
    const isKnown = (model: string): boolean => resources.has(model);
    const scope = readScope(
      splitNames(values.resources),
      splitNames(values.methods?.toUpperCase()),
      isKnown,
      errors,
    );
    const faults = Object.entries(errors).flatMap(([option, texts]) =>
      texts.map((text) => `--${option}: ${text}`),
    );
    if (faults.length > 0) throw new UsageError(faults.join('\n'));
    const made = user?.active
      ? await stored.add(user.id, { label, scope, expires }, undefined, Number.MAX_SAFE_INTEGER)
      : undefined;
    if (!made)
      throw new StartError(
        user?.active
          ? `${shown(user.name)} has ${MAX_TOKENS} tokens, which is the maximum. Revoke one first.`
          : `The user ${shown(name ?? '')} is not active.`,
      );
    await recordEvent('token.made', { detail: { token: made.id, of: user?.name } });
    printMessage(
      io,
      `made the token ${made.id} of ${shown(user?.name ?? '')}, which ${expires === null ? 'never expires' : `expires ${expires} UTC`}. It cannot be shown again.`,
    );
    print(io, made.token);
  });
}
