// Authenticates callers: checks names and passwords, or tokens, and remembers verified credentials for some minutes.
import { hash as digest, randomBytes } from 'node:crypto';
import type { Fragment } from '../../db/fragment.ts';
import { MAX_PASSWORD } from '../../db/types/password-text.ts';
import { isClientGone, type Requester } from '../../db/lanes/requester.ts';
import { Problem } from '../../errors.ts';
import type { HashTurn, Passwords } from '../../resources/users/password-hashing.ts';
import type { User } from '../../query/statements/user-statements.ts';
import type { EventFacts, Events } from '../../resources/users/events.ts';
import type { PasswordLinks } from '../../resources/users/password-links.ts';
import type { TakenCode } from '../../resources/users/second-factor.ts';
import type { FoundToken, Tokens } from '../../resources/users/tokens.ts';
import type { Users } from '../../resources/users/users.ts';
import type { Caller } from '../../resources/access/access.ts';
import { parseBasic, parseBearer, type Credentials } from './credentials.ts';
import { createFamiliarClients, type Familiar } from './familiar-clients.ts';
import { Unauthorized } from '../message/message.ts';
import { RecentEntries } from './recent-entries.ts';
import { createSingleFlight } from './single-flight.ts';
import { steadyClock } from './steady-clock.ts';
import type { Attempt, Throttle } from './login-throttle.ts';

/** Bounds of the cache of verified credentials. `lifetime` is in milliseconds and counts from the last use. */
const CACHE_BOUNDS = { maxEntries: 10_000, maxPerOwner: 100, lifetime: 5 * 60_000 };
/** Maximum length of a user name (characters). */
const MAX_NAME_LENGTH = 1024;
/** Milliseconds without rehashing after the database refused it, for instance because the role may not change users. */
const REHASH_PAUSE = 10 * 60_000;

interface Verified {
  /** The hash that the password was verified against. The entry is void when the user has another one. */
  readonly storedHash: string;
  /** Includes the precondition that the user's row is still the same. */
  readonly caller: Caller;
  readonly familiar: Familiar;
}

/** The result of a successful login. */
export interface Login {
  readonly caller: Caller;
  /** SQL condition: the user's row is still the one that was verified. It may change during the verification. */
  readonly precondition: Fragment;
  readonly hasSecondFactor: boolean;
  /** Digest of the user's key and stored hash, to continue the login with another request: see `resume`. */
  readonly mark: string;
}

/** Whether a user may have these credentials. Others fail without a look-up, like an unknown name: so they reveal no names. */
const isPossible = ({ name, password }: Credentials): boolean =>
  name.length <= MAX_NAME_LENGTH && !name.includes('\0') && Buffer.byteLength(password) <= MAX_PASSWORD;

const callerOf = ({ id, name, admin, roles, values }: User): Caller => ({ id, name, admin, roles, values });

export type Authentication = ReturnType<typeof createAuthentication>;

/** @param tokens undefined if the database has no table for them: then none is valid. The same with `links`, which need a secret. */
export function createAuthentication(
  users: Users,
  passwords: Passwords,
  throttle: Throttle,
  familiars = createFamiliarClients(),
  tokens?: Tokens,
  events?: Events,
  links?: PasswordLinks,
) {
  // The cache holds no passwords, only digests keyed with a secret of this process. They never leave the process, so a plain
  // hash is as safe as an HMAC. It takes a fifth of the time.
  const secret = randomBytes(32).toString('base64');
  const cache = new RecentEntries<Verified>(CACHE_BOUNDS);
  const tokenCache = new RecentEntries<FoundToken>(CACHE_BOUNDS);
  const verifyOnce = createSingleFlight<string | undefined>();
  let rehashAfter = 0;

  /** Includes the network, so that an entry is valid only for the network that verified it. */
  const cacheKeyOf = ({ name, password }: Credentials, network: string): string =>
    digest('sha256', `${secret} ${network} ${name.length}:${name}${password}`, 'base64');

  /** The same for a token. */
  const tokenKeyOf = (token: string, network: string): string =>
    digest('sha256', `${secret} ${network} ${token}`, 'base64');

  /** Whether this user has logged in from the network. Compares ids, because `countedName` can be equal for several users. */
  const isFamiliar = (network: string, user: User | undefined): boolean =>
    user !== undefined && familiars.find(network, user.id) !== undefined;

  /** In which lane a verification waits, and whose turn it takes there. */
  function turnOf(network: string, user: User | undefined, onGone: Requester['onGone']): HashTurn {
    // Users who have logged in from the network do not wait behind its other clients. They queue by user id, so that logging in
    // from many networks gives an account no more turns.
    const own = user && isFamiliar(network, user) ? user.id : undefined;
    // Other clients of such a network share a turn. A user's networks have one together, so that further networks add no turns.
    const neighbor = familiars.userAt(network);
    const key = own ?? (neighbor === undefined ? undefined : `neighbor of ${neighbor}`);
    return key === undefined
      ? { client: { key: network, clientKind: 'anonymous', onGone }, lane: 'others' }
      : { client: { key, clientKind: 'user', onGone }, lane: 'known' };
  }

  /** Replaces the stored hash if its argon2 costs are outdated. @returns the hash that is stored afterwards */
  async function rehash(user: User, password: string, turn: HashTurn): Promise<string> {
    if (passwords.isCurrent(user.password) || rehashAfter > steadyClock.now()) return user.password;
    try {
      const hash = await passwords.hash(password, { ...turn, lane: 'known' });
      return (await users.rehash(user, hash)) ? hash : user.password;
    } catch (error) {
      if (!(error instanceof Problem) && !isClientGone(error)) rehashAfter = steadyClock.now() + REHASH_PAUSE;
      return user.password;
    }
  }

  /** @returns the stored hash if the password matches and the user may log in here, else undefined */
  async function verify(
    { name, password }: Credentials,
    user: User | undefined,
    mayLogIn: boolean,
    network: string,
    onGone: Requester['onGone'],
  ): Promise<string | undefined> {
    let attempt: Attempt | undefined;
    const admit = (): boolean => {
      attempt = throttle.begin(network, name, isFamiliar(network, user), user?.id);
      return mayLogIn && attempt.maySucceed;
    };
    const turn = turnOf(network, user, onGone);
    let isVerified = false;
    try {
      isVerified = await passwords.verify(user?.password, password, { turn, admit });
    } finally {
      attempt?.end(!isVerified);
    }
    return isVerified && user ? rehash(user, password, turn) : undefined;
  }

  function loginOf(user: User): Login {
    const mark = digest('sha256', `${user.id} ${user.password}`, 'base64url');
    const { hasSecondFactor } = user;
    return { caller: callerOf(user), precondition: users.precondition(user), hasSecondFactor, mark };
  }

  function remember(key: string, user: User, verified: Omit<Verified, 'caller'>): Login {
    const login = loginOf(user);
    const { caller, precondition } = login;
    cache.set(key, caller.id, { ...verified, caller: { ...caller, precondition } });
    familiars.renew(verified.familiar);
    return login;
  }

  /** Checks the throttle, and counts what it refuses as an event. */
  function noting(facts: EventFacts, check: () => void): void {
    try {
      check();
    } catch (error) {
      events?.countEvent('login.throttled', facts);
      throw error;
    }
  }

  /**
   * Reads the user of a token from the database. A token needs no hash to verify and cannot be guessed, so all that the throttle does
   * is to count bad ones.
   */
  async function authenticateToken(token: string, network: string): Promise<Caller> {
    const key = tokenKeyOf(token, network);
    const facts = { address: network, detail: { token: true } };
    if (!tokenCache.get(key)) noting(facts, () => throttle.checkToken(network, token));
    const found = await tokens?.find(token);
    if (!found) {
      tokenCache.delete(key);
      throttle.countToken(network, token);
      events?.countEvent('login.failed', facts);
      throw new Unauthorized();
    }
    tokenCache.set(key, found.caller.id, found);
    found.recordUse();
    return found.caller;
  }

  /** The caller of a token that was used from this network within minutes, with the precondition. */
  function recallToken(token: string, network: string): Caller | undefined {
    const key = tokenKeyOf(token, network);
    const found = tokenCache.get(key);
    if (!found) return undefined;
    tokenCache.renew(key);
    found.recordUse();
    return { ...found.caller, precondition: found.precondition() };
  }

  function findCached(header: string | undefined, network: string): [string, Verified] | undefined {
    const credentials = header === undefined ? undefined : parseBasic(header);
    if (!credentials) return undefined;
    const key = cacheKeyOf(credentials, network);
    const verified = cache.get(key);
    return verified && [key, verified];
  }

  /**
   * Like `authenticate`, for credentials from a form.
   * @param isOfApi whether a verified password is a login to the API. Then that of a user with a second factor counts as wrong.
   */
  async function logIn(
    credentials: Credentials,
    network: string,
    onGone?: Requester['onGone'],
    isOfApi = false,
  ): Promise<Login> {
    const key = cacheKeyOf(credentials, network);
    const cached = cache.get(key);
    // Only the typed name is known here, not the user. So the outcome cannot depend on whether the user exists.
    const check = (isFamiliar: boolean, user?: User): void =>
      noting({ user, address: network }, () => throttle.check(network, credentials.name, isFamiliar));
    if (!cached) check(familiars.hasSimilar(network, credentials.name));
    const user = isPossible(credentials) ? await users.find(credentials.name) : undefined;
    const mayLogIn = user?.active === true && !(isOfApi && user.hasSecondFactor);
    const isUnchanged = user?.id === cached?.caller.id && user?.password === cached?.storedHash;
    if (cached && mayLogIn && isUnchanged && !user.hasSecondFactor) return remember(key, user, cached);
    // `recall` would go on renewing the outdated entry.
    if (cached) cache.delete(key);
    check(isFamiliar(network, user), user);
    // Equal credentials are verified once for all clients that wait.
    const storedHash = await verifyOnce(`${key} ${mayLogIn} ${user?.password}`, onGone, (allGone) =>
      verify(credentials, user, mayLogIn, network, allGone),
    );
    if (storedHash === undefined || !user) {
      events?.countEvent('login.failed', { user, address: network });
      throw new Unauthorized();
    }
    if (isOfApi) void events?.recordEvent('login', { user, address: network, detail: { door: 'api' } });
    const verified = { ...user, password: storedHash };
    // Only both factors together complete a login: see `checkCode`.
    if (user.hasSecondFactor) return loginOf(verified);
    const familiar = familiars.add(network, credentials.name, user.id);
    return remember(key, verified, { storedHash, familiar });
  }

  return {
    logIn,

    /** The active user with this name, for a program that knows who it is. @throws Unauthorized */
    callerNamed: async (wanted: string): Promise<Caller> => {
      const user = await users.find(wanted);
      if (!user?.active) throw new Unauthorized();
      const { id, name, admin, roles, values } = user;
      return { id, name, admin, roles, values };
    },

    /** Continues a login whose password was verified, if the user and the password are still the same. @param mark of that login */
    async resume(name: string, mark: string): Promise<Login | undefined> {
      const user = await users.find(name);
      const login = user?.active ? loginOf(user) : undefined;
      return login?.mark === mark ? login : undefined;
    },

    /**
     * Checks a code of a second factor. A wrong one counts like a wrong password.
     * @param take looks the code up, and uses it up
     * @throws Unauthorized; Problem 429
     */
    async checkCode(
      { id, name }: Pick<Caller, 'id' | 'name'>,
      network: string,
      take: () => Promise<TakenCode | undefined>,
    ): Promise<void> {
      const attempt = throttle.begin(network, name, familiars.find(network, id) !== undefined, id);
      let taken: TakenCode | undefined;
      try {
        taken = attempt.maySucceed ? await take() : undefined;
      } finally {
        attempt.end(taken === undefined);
      }
      const facts = { user: { id, name }, address: network };
      if (taken === 'recovery') void events?.recordEvent('second-factor.used-recovery', facts);
      if (taken !== undefined) {
        familiars.add(network, name, id);
        return;
      }
      events?.countEvent('login.failed', { ...facts, detail: { secondFactor: true } });
      throw new Unauthorized();
    },

    /**
     * The user of a link to set a password. Bad links count like bad tokens.
     * @throws Unauthorized; Problem 429
     */
    async readLink(link: string, network: string): Promise<Login> {
      const facts = { address: network, detail: { link: true } };
      noting(facts, () => throttle.checkToken(network, link));
      const user = await links?.find(link);
      if (user) return loginOf(user);
      throttle.countToken(network, link);
      events?.countEvent('login.failed', facts);
      throw new Unauthorized();
    },

    /**
     * The caller from the cache, if these credentials were verified from this network within minutes. Does not read the
     * database, so the next statement must check the caller's precondition.
     */
    recall(header: string | undefined, network: string): Caller | undefined {
      const token = header === undefined ? undefined : parseBearer(header);
      if (token !== undefined) return recallToken(token, network);
      const [key, verified] = findCached(header, network) ?? [];
      if (key === undefined || !verified) return undefined;
      // Each use renews both, so that failures of others never lock out an active client.
      cache.renew(key);
      familiars.renew(verified.familiar);
      return verified.caller;
    },

    /** Like `recall`, without renewing the entry. For queues and time limits only: nothing checks the precondition. */
    peek(header: string | undefined, network: string): Caller | undefined {
      const token = header === undefined ? undefined : parseBearer(header);
      if (token !== undefined) return tokenCache.get(tokenKeyOf(token, network))?.caller;
      return findCached(header, network)?.[1].caller;
    },

    /**
     * Authenticates an `Authorization` header. Reads the user from the database.
     * @param network the client's network, see `clientNetwork`
     * @param onGone registers a callback for when the client disconnects, which ends its wait for a verification
     * @throws Unauthorized, in the same way for an unknown user, a wrong password, an inactive user, one with a second factor, a bad
     * token and a malformed header; Problem 429 after too many failures, 503 if too many passwords are being verified
     */
    authenticate: async (
      header: string | undefined,
      network: string,
      onGone?: Requester['onGone'],
    ): Promise<Caller> => {
      const token = header === undefined ? undefined : parseBearer(header);
      if (token !== undefined) return authenticateToken(token, network);
      const credentials = header === undefined ? undefined : parseBasic(header);
      if (!credentials) throw new Unauthorized();
      return (await logIn(credentials, network, onGone, true)).caller;
    },
  };
}
