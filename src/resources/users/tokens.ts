// Tokens of the API: `vt_<id>_<secret>`. The database has only the SHA-256 of their secrets.
import { hash as digestOf, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { Database } from '../../db/connection/database.ts';
import type { Fragment } from '../../db/fragment.ts';
import type { Statement } from '../../db/rows.ts';
import type { Model } from '../../db/schema/model.ts';
import {
  tokenStatements,
  type NewToken,
  type TokenUser,
} from '../../query/statements/credential-statements.ts';
import type { UserFacts } from '../../query/statements/user-statements.ts';
import { addError, excerpt, Problem, type FieldErrors } from '../../errors.ts';
import { messageOf, type Message } from '../../messages.ts';
import type { Caller, Scope } from '../access/access.ts';
import type { RecordEvent } from './events.ts';
import { METHODS, type Method } from '../definition/resource.ts';
import { isIn } from '../definition/validators.ts';

/** Maximum characters of a label. */
export const MAX_LABEL = 255;
/** Maximum tokens of a user. */
export const MAX_TOKENS = 50;
/** Maximum tokens that a user makes in an hour, since each scope is another access. */
const MAX_PER_HOUR = 20;
/** Maximum resources in a scope. */
const MAX_NAMES = 1_000;
/** Maximum tokens in a list. */
const MAX_LISTED = 1_000;
/** Days until a token expires that is made without an expiry. */
export const DEFAULT_DAYS = 90;

/** 256 bits and a checksum of eight digits, by which scanners for leaked secrets recognize a token. */
const TOKEN = /^vt_([1-9]\d{0,17})_([0-9a-f]{64})([0-9a-f]{8})$/;

const checksum = (text: string): string => crc32(text).toString(16).padStart(8, '0');
const digest = (secret: string): string => digestOf('sha256', secret, 'hex');

/** What is looked up for a text that is no token, so that every bad token takes the same time. */
const NO_TOKEN = { id: '', hash: digest('') };

function parseToken(text: string): { readonly id: string; readonly hash: string } {
  const [, id = '', secret = '', sum] = TOKEN.exec(text) ?? [];
  const hash = digest(secret);
  return sum === checksum(`vt_${id}_${secret}`) ? { id, hash } : NO_TOKEN;
}

/** The key of a token as a client writes it; undefined for a text that is none. */
const parseKey = (text: string): string | undefined => (/^[1-9]\d{0,17}$/.test(text) ? text : undefined);

const namesIn = (text: string | null): readonly string[] | undefined => text?.split(',');

/** The scope of stored names. */
const scopeOf = ({ models, methods }: Pick<NewToken, 'models' | 'methods'>): Scope => ({
  models: namesIn(models),
  methods: namesIn(methods)?.filter((name): name is Method => isIn(METHODS)(name)),
});

/** When a token expires that lasts so many days, in UTC. */
export const expiryAfter = (days = DEFAULT_DAYS): string =>
  new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 19).replace('T', ' ');

/** Checks the names of a scope. @param isKnown whether there is a resource of this name */
export function readScope(
  resources: unknown,
  methods: unknown,
  isKnown: (name: string) => boolean,
  errors: FieldErrors,
): Scope {
  const namesOf = (field: string, names: unknown, faultOf: (name: string) => Message | undefined) => {
    if (names === undefined || names === null) return undefined;
    const faults = !Array.isArray(names)
      ? [messageOf('notArray')]
      : names.length === 0
        ? [messageOf('noValue')]
        : names.length > MAX_NAMES
          ? [messageOf('tooManyElements', { max: MAX_NAMES })]
          : names.flatMap((name) =>
              typeof name === 'string' ? (faultOf(name) ?? []) : messageOf('notString'),
            );
    for (const fault of faults) addError(errors, field, fault);
    return faults.length > 0 ? [] : [...new Set(names as string[])].sort();
  };
  return {
    models: namesOf('resources', resources, (name) =>
      isKnown(name) ? undefined : messageOf('noResourceNamed', { name: excerpt(name) }),
    ),
    methods: namesOf('methods', methods, (name) =>
      isIn(METHODS)(name) ? undefined : messageOf('notOneOf', { names: METHODS.join(', ') }),
    ) as readonly Method[] | undefined,
  };
}

/** What a token is made with. */
interface TokenRequest {
  readonly label: string;
  readonly scope: Scope;
  /** In UTC; null for a token that does not expire. */
  readonly expires: string | null;
}

/** The user of a token, and how to record the use of the token. */
export interface FoundToken {
  readonly caller: Caller;
  /** SQL condition: the token is still valid, and its user the same. */
  readonly precondition: () => Fragment;
  /** Records the day of the use. No request waits for it. */
  readonly recordUse: () => void;
}

/** The day in UTC, as a number. */
const today = (): number => Math.floor(Date.now() / 86_400_000);

export type Tokens = ReturnType<typeof createTokens>;

/**
 * @param tokens the table of tokens
 * @param users the user model, whose `username`, `active` and `admin` are there
 */
export function createTokens(
  database: Database,
  tokens: Model,
  users: Model,
  facts: UserFacts,
  recordEvent: RecordEvent,
) {
  const statements = tokenStatements(tokens, users, facts);

  /** Digests of the secrets whose use is being recorded. */
  const recorded = new Set<string>();
  /** One write at a time for each token. A later request repeats it if it fails. */
  async function recordUse(hash: string, user: TokenUser): Promise<void> {
    if (recorded.has(hash)) return;
    recorded.add(hash);
    const isFirst = await database.run(statements.recordUse(hash), 'write').catch(() => false);
    recorded.delete(hash);
    if (isFirst) await recordEvent('token.used', { user, detail: { token: user.token } });
  }

  function foundToken(hash: string, user: TokenUser): FoundToken {
    const { id, name, admin, roles, values, isUsedToday } = user;
    let precondition: Fragment | undefined;
    let usedOn = isUsedToday ? today() : 0;
    return {
      caller: { id, name, admin, roles, values, scope: scopeOf(user) },
      // Only writes need it.
      precondition: () => (precondition ??= statements.precondition(hash, user)),
      recordUse: () => {
        if (usedOn === today()) return;
        usedOn = today();
        void recordUse(hash, user);
      },
    };
  }

  return {
    /** The user of a valid token, read from the database; undefined for any other text. */
    async find(text: string): Promise<FoundToken | undefined> {
      const { id, hash } = parseToken(text);
      const user = await database.run(statements.find(hash), 'quick');
      return user?.token === id ? foundToken(hash, user) : undefined;
    },

    /**
     * Makes a token of an active user.
     * @param run runs the statement, for instance in a transaction
     * @param maxPerHour for a user who makes it
     * @returns its key and its text, which is nowhere stored; undefined for a user who is not active, or has `MAX_TOKENS`
     * @throws Problem 429
     */
    async add(
      userId: string,
      { label, scope, expires }: TokenRequest,
      run = <T>(statement: Statement<T>): Promise<T> => database.run(statement, 'write'),
      maxPerHour = MAX_PER_HOUR,
    ): Promise<{ readonly id: string; readonly token: string } | undefined> {
      const secret = randomBytes(32).toString('hex');
      const stored = {
        label,
        expires,
        models: scope.models?.join() ?? null,
        methods: scope.methods?.join() ?? null,
      };
      const { id, wait } = await run(statements.add(userId, digest(secret), stored, MAX_TOKENS, maxPerHour));
      if (id === undefined && wait > 0)
        throw new Problem(429, messageOf('tooManyNewTokens', { max: maxPerHour }), {
          headers: { 'Retry-After': String(wait) },
        });
      const start = `vt_${id}_${secret}`;
      return id === undefined ? undefined : { id, token: `${start}${checksum(start)}` };
    },

    /** The latest tokens of a user, or of all users. */
    list: async (userId?: string) =>
      (await database.run(statements.list(userId, MAX_LISTED), 'read')).map((token) => ({
        ...token,
        scope: scopeOf(token),
      })),

    /** Deletes a token of a user, or of any user. @returns whether there was one */
    revoke: async (text: string, userId?: string): Promise<boolean> => {
      const id = parseKey(text);
      return id !== undefined && database.run(statements.revoke(id, userId), 'write');
    },

    /** The models in scopes of valid tokens that are none of these. */
    unknownModels: (known: Iterable<string>): Promise<string[]> =>
      database.run(statements.unknownModels([...known]), 'read'),

    prune: (): Promise<void> => database.run(statements.prune(), 'write'),
  };
}
