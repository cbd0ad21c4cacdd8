import { RecentEntries } from '../message/recent-entries.ts';
import { countedName } from './login-throttle.ts';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
/** Clients that are remembered, and how many of one user. A user who moves between more networks loses the oldest. */
const BOUNDS = { maxEntries: 20_000, maxPerOwner: 100, lifetime: DAY };

/** A user who has logged in from an address, by a name that may be another spelling of the stored one. */
export interface Familiar {
  readonly address: string;
  readonly name: string;
  readonly userId: string;
  renewed: number;
}

/** Who has logged in within a day, and from where: bounded, and kept in this process alone. */
export interface FamiliarClients {
  readonly find: (address: string, userId: string) => Familiar | undefined;
  /**
   * Whether a user with such a name has logged in from the address. Another user may have a name that is counted alike, so this
   * only decides whether to read the user.
   */
  readonly hasSimilar: (address: string, name: string) => boolean;
  /** Whether the user has logged in from any address. */
  readonly isKnown: (userId: string) => boolean;
  /** The key of the user who has logged in from the address last. */
  readonly userAt: (address: string) => string | undefined;
  readonly add: (address: string, name: string, userId: string) => Familiar;
  /** Renews a client that is at work. */
  readonly renew: (familiar: Familiar) => void;
}

const userKey = (address: string, userId: string): string => `${address} ${userId}`;
const nameKey = (address: string, name: string): string => `${address} ${countedName(name)}`;

/** Remembers who has logged in from where. */
export function createFamiliarClients(): FamiliarClients {
  const clients = new RecentEntries<Familiar>(BOUNDS);
  const names = new RecentEntries<true>(BOUNDS);
  const addresses = new RecentEntries<string>(BOUNDS);
  const users = new RecentEntries<true>(BOUNDS);

  function keep(familiar: Familiar): Familiar {
    const { address, name, userId } = familiar;
    familiar.renewed = Date.now();
    clients.set(userKey(address, userId), userId, familiar);
    names.set(nameKey(address, name), userId, true);
    addresses.set(address, userId, userId);
    users.set(userId, userId, true);
    return familiar;
  }

  return {
    find: (address, userId) => clients.get(userKey(address, userId)),
    hasSimilar: (address, name) => names.get(nameKey(address, name)) === true,
    isKnown: (userId) => users.get(userId) === true,
    userAt: (address) => addresses.get(address),
    add: (address, name, userId) => keep({ address, name, userId, renewed: 0 }),
    renew: (familiar) => {
      if (familiar.renewed + MINUTE <= Date.now()) keep(familiar);
    },
  };
}
