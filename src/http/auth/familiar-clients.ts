// Remembers which users have logged in from which addresses, so that failed logins of others do not lock them out.
import { RecentEntries } from '../message/recent-entries.ts';
import { countedName } from './login-throttle.ts';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
/** Bounds of each cache. A user who logs in from more addresses than `maxPerOwner` loses the oldest. */
const BOUNDS = { maxEntries: 20_000, maxPerOwner: 100, lifetime: DAY };

/** A user who has logged in from an address. The typed name may be another spelling of the stored one. */
export interface Familiar {
  readonly address: string;
  readonly name: string;
  readonly userId: string;
  /** In milliseconds, as of `Date.now`. */
  renewedAt: number;
}

const userKey = (address: string, userId: string): string => `${address} ${userId}`;
const nameKey = (address: string, name: string): string => `${address} ${countedName(name)}`;

/** Logins of the last day, by address. Bounded, and separate in each process. */
export function createFamiliarClients() {
  const clients = new RecentEntries<Familiar>(BOUNDS);
  const names = new RecentEntries<true>(BOUNDS);
  const addresses = new RecentEntries<string>(BOUNDS);
  const users = new RecentEntries<true>(BOUNDS);

  function store(familiar: Familiar): Familiar {
    const { address, name, userId } = familiar;
    familiar.renewedAt = Date.now();
    clients.set(userKey(address, userId), userId, familiar);
    names.set(nameKey(address, name), userId, true);
    addresses.set(address, userId, userId);
    users.set(userId, userId, true);
    return familiar;
  }

  return {
    find: (address: string, userId: string): Familiar | undefined => clients.get(userKey(address, userId)),
    /**
     * Whether a user with a similar name (see `countedName`) has logged in from the address. It may be another user, so this only
     * decides whether to read the user from the database.
     */
    hasSimilar: (address: string, name: string): boolean => names.get(nameKey(address, name)) === true,
    /** Whether the user has logged in from any address. */
    isKnown: (userId: string): boolean => users.get(userId) === true,
    /** The id of the user who last logged in from the address. */
    userAt: (address: string): string | undefined => addresses.get(address),
    add: (address: string, name: string, userId: string): Familiar =>
      store({ address, name, userId, renewedAt: 0 }),
    /** Extends the entry of a client that sends requests. */
    renew: (familiar: Familiar): void => {
      if (familiar.renewedAt + MINUTE <= Date.now()) store(familiar);
    },
  };
}
