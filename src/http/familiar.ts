import { Recent } from './recent.ts';
import { countedName } from './throttle.ts';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
/** Clients that are remembered, and how many of one user. A user who moves between more networks loses the oldest. */
const BOUNDS = { most: 20_000, mostOfOwner: 100, lifetime: DAY };

/** A name that has logged in from an address. */
export interface Familiar {
  readonly address: string;
  readonly name: string;
  renewed: number;
}

/** Who has logged in within a day, and from where: bounded, and kept in this process alone. */
export interface FamiliarClients {
  readonly find: (address: string, name: string) => Familiar | undefined;
  /** Whether the name has logged in from any address. */
  readonly isKnown: (name: string) => boolean;
  /** The key of the user who has logged in from the address last. */
  readonly userAt: (address: string) => string | undefined;
  readonly add: (address: string, name: string, userId: string) => Familiar;
  /** Renews a client that is at work. */
  readonly renew: (familiar: Familiar, userId: string) => void;
}

const keyOf = (address: string, name: string): string => `${address} ${countedName(name)}`;

export function createFamiliarClients(): FamiliarClients {
  const clients = new Recent<Familiar>(BOUNDS);
  const addresses = new Recent<string>(BOUNDS);
  const names = new Recent<true>(BOUNDS);

  function keep(familiar: Familiar, userId: string): Familiar {
    familiar.renewed = Date.now();
    clients.set(keyOf(familiar.address, familiar.name), userId, familiar);
    addresses.set(familiar.address, userId, userId);
    names.set(countedName(familiar.name), userId, true);
    return familiar;
  }

  const find = (address: string, name: string): Familiar | undefined => clients.get(keyOf(address, name));

  return {
    find,
    isKnown: (name) => names.get(countedName(name)) === true,
    userAt: (address) => addresses.get(address),
    add: (address, name, userId) => keep(find(address, name) ?? { address, name, renewed: 0 }, userId),
    renew: (familiar, userId) => {
      if (familiar.renewed + MINUTE <= Date.now()) keep(familiar, userId);
    },
  };
}
