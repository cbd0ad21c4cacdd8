// Remembers which users have logged in from which networks, so that failed logins of others do not lock them out.
import { RecentEntries } from './recent-entries.ts';
import { countedName } from './login-throttle.ts';
import { steadyClock } from './steady-clock.ts';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
/** Bounds of each cache. A user who logs in from more networks than `maxPerOwner` loses the oldest. */
const BOUNDS = { maxEntries: 20_000, maxPerOwner: 100, lifetime: DAY };

/** A user who has logged in from a network. The typed name may be another spelling of the stored one. */
export interface Familiar {
  readonly network: string;
  readonly name: string;
  readonly userId: string;
  /** In milliseconds, as of `steadyClock`. */
  renewedAt: number;
}

/** A login in another process, and the milliseconds since it was renewed. */
export type SharedLogin = readonly [network: string, name: string, userId: string, age: number];

/** Logins with longer names or ids (characters) are not shared. */
const MAX_SHARED = 512;

const userKey = (network: string, userId: string): string => `${network} ${userId}`;
const nameKey = (network: string, name: string): string => `${network} ${countedName(name)}`;

/**
 * Logins of the last day, by network. Bounded.
 * @param share receives each login and each renewal, for the other processes
 */
export function createFamiliarClients(share?: (login: SharedLogin) => void) {
  const clients = new RecentEntries<Familiar>(BOUNDS);
  const names = new RecentEntries<true>(BOUNDS);
  const networks = new RecentEntries<string>(BOUNDS);

  function store(familiar: Familiar, age = 0): void {
    const { network, name, userId } = familiar;
    familiar.renewedAt = steadyClock.now() - age;
    clients.set(userKey(network, userId), userId, familiar, age);
    names.set(nameKey(network, name), userId, true, age);
    networks.set(network, userId, userId, age);
  }

  function storeAndShare(familiar: Familiar): Familiar {
    store(familiar);
    const { network, name, userId } = familiar;
    if (name.length <= MAX_SHARED && userId.length <= MAX_SHARED) share?.([network, name, userId, 0]);
    return familiar;
  }

  return {
    find: (network: string, userId: string): Familiar | undefined => clients.get(userKey(network, userId)),
    /**
     * Whether a user with a similar name (see `countedName`) has logged in from the network. It may be another user, so this only
     * decides whether to read the user from the database.
     */
    hasSimilar: (network: string, name: string): boolean => names.get(nameKey(network, name)) === true,
    /** The id of the user who last logged in from the network. */
    userAt: (network: string): string | undefined => networks.get(network),
    add: (network: string, name: string, userId: string): Familiar =>
      storeAndShare({ network, name, userId, renewedAt: 0 }),
    /** Extends the entry of a client that sends requests. */
    renew: (familiar: Familiar): void => {
      if (familiar.renewedAt + MINUTE <= steadyClock.now()) storeAndShare(familiar);
    },

    /** Adds logins of other processes. */
    learn: (logins: readonly SharedLogin[]): void => {
      for (const [network, name, userId, age] of logins) store({ network, name, userId, renewedAt: 0 }, age);
    },
    /** The latest logins, at most so many. */
    recent: (maxLogins: number): SharedLogin[] =>
      [...clients.values()]
        .slice(-maxLogins)
        .map(({ network, name, userId, renewedAt }) => [
          network,
          name,
          userId,
          steadyClock.now() - renewedAt,
        ]),
  };
}
