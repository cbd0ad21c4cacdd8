import { createHmac, randomBytes } from 'node:crypto';
import type { Caller } from '../resources/served.ts';
import { MAX_PASSWORD, type Passwords } from '../resources/passwords.ts';
import type { User, Users } from '../resources/users.ts';
import { parseBasic, type Credentials } from './credentials.ts';
import { Unauthorized } from './message.ts';
import type { Throttle } from './throttle.ts';

/** How long a verified password is remembered after its last use (milliseconds), and how many are. */
const MEMORY = 5 * 60_000;
const MOST_REMEMBERED = 10_000;

interface Verified {
  /** The stored hash that the password was verified against; another one makes the memory worthless. */
  readonly stored: string;
  /** With the claim that the user's row is still as it was then. */
  readonly caller: Caller;
  readonly until: number;
}

export interface Authentication {
  /**
   * The user of an `Authorization` header, read from the database.
   * @param address of the client, for the throttle
   * @throws Unauthorized, the same for an unknown user, a wrong password, an inactive user and a malformed header;
   * Problem 429 when there were too many failures, 503 when too many passwords are being checked
   */
  readonly authenticate: (header: string | undefined, address: string) => Promise<Caller>;
  /**
   * Who sent these credentials not long ago, with what must still hold of them; undefined where nobody did. The database is
   * not asked: whoever goes by this has to let the claim decide.
   */
  readonly recall: (header: string | undefined) => Caller | undefined;
  /** The same for a name and a password that came in another way. */
  readonly logIn: (credentials: Credentials, address: string) => Promise<Caller>;
}

export function createAuthentication(users: Users, passwords: Passwords, throttle: Throttle): Authentication {
  // Digests are keyed with a secret of this process: they are worth nothing elsewhere, and no password is kept.
  const key = randomBytes(32);
  const remembered = new Map<string, Verified>();
  const underway = new Map<string, Promise<boolean>>();

  const digestOf = ({ name, password }: Credentials): string =>
    createHmac('sha256', key)
      .update(`${Buffer.byteLength(name)}:${name}${password}`)
      .digest('base64');

  function remember(digest: string, verified: Pick<Verified, 'stored' | 'caller'>): void {
    remembered.delete(digest);
    const oldest = remembered.keys().next();
    if (remembered.size >= MOST_REMEMBERED && !oldest.done) remembered.delete(oldest.value);
    remembered.set(digest, { ...verified, until: Date.now() + MEMORY });
  }

  /** The name by which failures are counted: the stored one, which the database may find by other spellings as well. */
  const nameOf = (credentials: Credentials, user: User | undefined): string => user?.name ?? credentials.name;

  async function verify(credentials: Credentials, user: User | undefined, address: string): Promise<boolean> {
    const { password } = credentials;
    let end: ((failed: boolean) => void) | undefined;
    const begin = (): void => {
      end = throttle.begin(address, nameOf(credentials, user));
    };
    let verified = false;
    try {
      if (Buffer.byteLength(password) > MAX_PASSWORD) begin();
      else verified = (await passwords.verify(user?.password, password, begin)) && user?.active === true;
    } finally {
      end?.(!verified);
    }
    return verified;
  }

  /** Requests that come with the same credentials at the same time share one verification. */
  function verifyOnce(
    digest: string,
    credentials: Credentials,
    user: User | undefined,
    address: string,
  ): Promise<boolean> {
    const shared = `${digest} ${address} ${user?.active} ${user?.password}`;
    const running = underway.get(shared);
    if (running) return running;
    const started = verify(credentials, user, address).finally(() => underway.delete(shared));
    underway.set(shared, started);
    return started;
  }

  async function logIn(credentials: Credentials, address: string): Promise<Caller> {
    const digest = digestOf(credentials);
    const memory = remembered.get(digest);
    const isFresh = memory !== undefined && memory.until > Date.now();
    if (!isFresh) throttle.check(address, credentials.name);
    const user = await users.find(credentials.name);
    const known = isFresh && user !== undefined && user.active && user.password === memory.stored;
    if (!known) {
      throttle.check(address, nameOf(credentials, user));
      if (!(await verifyOnce(digest, credentials, user, address)) || !user) throw new Unauthorized();
    }
    // Each use renews the memory: a client that is at work must not depend on a throttle that others have filled.
    const caller = { id: user.id, name: user.name, admin: user.admin };
    remember(digest, { stored: user.password, caller: { ...caller, claim: users.claim(user) } });
    return caller;
  }

  return {
    logIn,
    recall(header) {
      const credentials = header === undefined ? undefined : parseBasic(header);
      if (!credentials) return undefined;
      const digest = digestOf(credentials);
      const memory = remembered.get(digest);
      if (!memory || memory.until <= Date.now()) return undefined;
      remember(digest, memory);
      return memory.caller;
    },
    async authenticate(header, address) {
      const credentials = header === undefined ? undefined : parseBasic(header);
      if (!credentials) throw new Unauthorized();
      return logIn(credentials, address);
    },
  };
}
