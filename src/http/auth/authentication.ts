import { hash as digest, randomBytes } from 'node:crypto';
import type { Fragment } from '../../db/fragment.ts';
import { MAX_PASSWORD } from '../../db/types/password-text.ts';
import { isClientGone, type Requester } from '../../db/scheduling/requester.ts';
import { Problem } from '../../errors.ts';
import type { SlotRequest } from '../../resources/passwords/password-gate.ts';
import type { Passwords } from '../../resources/passwords/password-hashing.ts';
import type { Caller } from '../../resources/serve/served-resource.ts';
import type { User, Users } from '../../resources/users/users.ts';
import { parseBasic, type Credentials } from './credentials.ts';
import { createFamiliarClients, type Familiar } from './familiar-clients.ts';
import { Unauthorized } from '../message/message.ts';
import { enclosingNetworks } from '../message/client-networks.ts';
import { Recent } from '../message/recent-entries.ts';
import { createSharing } from './shared-checks.ts';
import { countedName, type Throttle } from './login-throttle.ts';

/** Verified credentials that are remembered; `lifetime` counts from the last use. */
const REMEMBERED = { most: 10_000, mostOfOwner: 100, lifetime: 5 * 60_000 };
/** Characters of a user name; the database is not asked for longer ones. */
const MOST_OF_NAME = 1024;
/** Milliseconds between two looks at what the users' hashes cost. */
const SAMPLE_AGE = 10 * 60_000;
/** Milliseconds without rehashing after the database has refused it, as it does where the role may not change users. */
const REHASH_PAUSE = 10 * 60_000;

interface Verified {
  /** The stored hash that the password was verified against. The memory is void when the user has another one. */
  readonly stored: string;
  /** Includes the precondition that the user's row is still the same. */
  readonly caller: Caller;
  readonly familiar: Familiar;
}

/** Verified credentials, and what they were verified against. */
export interface Login {
  readonly caller: Caller;
  /** Whether the user's row is still the one that was verified: verification takes time in which it may change. */
  readonly precondition: Fragment;
}

export interface Authentication {
  /**
   * The user of an `Authorization` header, read from the database.
   * @param address the client's network, see `clientNetwork`
   * @param onGone calls back when the client is gone, whose wait for a verification then ends
   * @throws Unauthorized, the same for an unknown user, a wrong password, an inactive user and a malformed header;
   * Problem 429 after too many failures, 503 when too many passwords are being checked
   */
  readonly authenticate: (
    header: string | undefined,
    address: string,
    onGone?: Requester['onGone'],
  ) => Promise<Caller>;
  /**
   * The caller who has sent these credentials from this address lately, with a precondition that the caller's next statement must check,
   * since the database is not asked here.
   */
  readonly recall: (header: string | undefined, address: string) => Caller | undefined;
  /** The same without a precondition to be checked: whom the database has confirmed within minutes, for nothing but turns and time. */
  readonly peek: (header: string | undefined, address: string) => Caller | undefined;
  /** Like `authenticate`, for a name and a password that came in another way. */
  readonly logIn: (credentials: Credentials, address: string, onGone?: Requester['onGone']) => Promise<Login>;
}

export function createAuthentication(users: Users, passwords: Passwords, throttle: Throttle): Authentication {
  // The digests are keyed with a secret of this process. They are worthless elsewhere, and no password is kept.
  // They never leave it either, so that a plain hash behind the secret does what an HMAC would, in a fifth of the time.
  const secret = randomBytes(32).toString('base64');
  const remembered = new Recent<Verified>(REMEMBERED);
  const familiars = createFamiliarClients();
  const shareVerification = createSharing<string | undefined>();
  let sampledAt = 0;
  let rehashAfter = 0;

  /** The address is part of it: what one address has verified opens nothing for another. */
  const digestOf = ({ name, password }: Credentials, address: string): string =>
    digest('sha256', `${secret} ${address} ${name.length}:${name}${password}`, 'base64');

  /** Reads what the users' hashes cost, so that unknown users cost the same. */
  async function sample(): Promise<void> {
    sampledAt = Date.now();
    await users
      .sampleCosts()
      .then(passwords.imitate)
      .catch(() => undefined);
  }
  const firstSample = sample();

  /** The name by which failures are counted: the stored one, which the database may find by other spellings as well. */
  const nameOf = (credentials: Credentials, user: User | undefined): string => user?.name ?? credentials.name;

  /** Whether this very user has logged in from the address: users may have names that are counted alike. */
  const isFamiliar = (address: string, user: User | undefined): boolean =>
    user !== undefined && familiars.find(address, user.id) !== undefined;

  /** Whose turn it is to have a password verified. A user who has logged in from an address does not wait behind its neighbors. */
  function turnOf(address: string, user: User | undefined, signal?: AbortSignal): SlotRequest {
    const from = { address, network: enclosingNetworks(address).at(-1) ?? address };
    // Known users queue by user, so that one account takes one turn from however many addresses it has logged in.
    const client = user ? `user ${user.id}` : address;
    if (isFamiliar(address, user)) return { client, priority: 'address', from, signal };
    const userId = familiars.userAt(address);
    if (userId !== undefined) return { client: `neighbor of ${userId}`, priority: 'address', from, signal };
    return user && familiars.isKnown(user.id)
      ? { client, priority: 'name', from, signal }
      : { client: address, priority: 'stranger', from, signal };
  }

  /** Replaces a hash of other costs. @returns the stored hash */
  async function rehash(user: User, password: string, turn: SlotRequest): Promise<string> {
    if (passwords.isCurrent(user.password) || rehashAfter > Date.now()) return user.password;
    try {
      const hash = await passwords.hash(password, { ...turn, priority: 'address' });
      return (await users.rehash(user, hash)) ? hash : user.password;
    } catch (error) {
      if (!(error instanceof Problem) && !isClientGone(error)) rehashAfter = Date.now() + REHASH_PAUSE;
      return user.password;
    }
  }

  /** @returns the stored hash that the password matches, else undefined */
  async function verify(
    { name, password }: Credentials,
    user: User | undefined,
    address: string,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    let end: ((failed: boolean) => void) | undefined;
    const admit = (): void => {
      end = throttle.begin(address, user?.name ?? name, isFamiliar(address, user));
    };
    const turn = turnOf(address, user, signal);
    let isVerified = false;
    await firstSample;
    try {
      if (Buffer.byteLength(password) > MAX_PASSWORD) admit();
      else {
        const how = { ...turn, name: countedName(name), admit };
        isVerified = (await passwords.verify(user?.password, password, how)) && user?.active === true;
      }
    } finally {
      end?.(!isVerified);
    }
    return isVerified && user ? rehash(user, password, turn) : undefined;
  }

  /** Each use renews the memory: a client at work must not depend on a throttle that others have filled. */
  function remember(digest: string, verified: Verified): void {
    remembered.set(digest, verified.caller.id, verified);
    familiars.renew(verified.familiar);
  }

  function findRemembered(header: string | undefined, address: string): [string, Verified] | undefined {
    const credentials = header === undefined ? undefined : parseBasic(header);
    if (!credentials) return undefined;
    const key = digestOf(credentials, address);
    const verified = remembered.get(key);
    return verified && [key, verified];
  }

  /** Verifies credentials, unless their client is gone before its turn. @returns the stored hash, else undefined */
  async function verifyShared(
    digest: string,
    credentials: Credentials,
    user: User | undefined,
    address: string,
    onGone: Requester['onGone'] | undefined,
  ): Promise<string | undefined> {
    const gone = new AbortController();
    const stop = onGone?.(() => gone.abort());
    try {
      const key = `${digest} ${user?.active} ${user?.password}`;
      return await shareVerification(key, gone.signal, (all) => verify(credentials, user, address, all));
    } finally {
      stop?.();
    }
  }

  async function logIn(
    credentials: Credentials,
    address: string,
    onGone?: Requester['onGone'],
  ): Promise<Login> {
    const digest = digestOf(credentials, address);
    const memory = remembered.get(digest);
    // Only the typed name is known here. Whether the user exists must not matter before the user is read.
    if (!memory) throttle.check(address, credentials.name, familiars.hasSimilar(address, credentials.name));
    if (sampledAt + SAMPLE_AGE <= Date.now()) void sample();
    // The names of users are shorter, so a longer one shows nothing of them.
    const isLong = credentials.name.length > MOST_OF_NAME;
    const user = isLong ? undefined : await users.find(credentials.name);
    const isSame = user?.id === memory?.caller.id && user?.password === memory?.stored;
    if (memory && user?.active && isSame) {
      const caller = { id: user.id, name: user.name, admin: user.admin };
      const precondition = users.precondition(user);
      remember(digest, { ...memory, caller: { ...caller, precondition } });
      return { caller, precondition };
    }
    // A precondition that is no longer true must not be renewed by requests that fail because of it.
    if (memory) remembered.delete(digest);
    throttle.check(address, nameOf(credentials, user), isFamiliar(address, user));
    const stored = await verifyShared(digest, credentials, user, address, onGone);
    if (stored === undefined || !user) throw new Unauthorized();
    const caller = { id: user.id, name: user.name, admin: user.admin };
    const familiar = familiars.add(address, credentials.name, user.id);
    const precondition = users.precondition({ ...user, password: stored });
    remember(digest, { stored, caller: { ...caller, precondition }, familiar });
    return { caller, precondition };
  }

  return {
    logIn,
    recall(header, address) {
      const found = findRemembered(header, address);
      if (found) remember(...found);
      return found?.[1].caller;
    },
    peek: (header, address) => findRemembered(header, address)?.[1].caller,
    async authenticate(header, address, onGone) {
      const credentials = header === undefined ? undefined : parseBasic(header);
      if (!credentials) throw new Unauthorized();
      return (await logIn(credentials, address, onGone)).caller;
    },
  };
}
