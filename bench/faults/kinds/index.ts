import type { Fault } from '../stage.ts';
import { clientsGone } from './clients-gone.ts';
import { collisions } from './collisions.ts';
import { connectionsExhausted } from './connections-exhausted.ts';
import { diskFull } from './disk-full.ts';
import { rowsLocked, tableLocked } from './locks.ts';
import { blackHole, packetsDropped } from './network.ts';
import { postgresFrozen } from './postgres-frozen.ts';
import { postgresKilled } from './postgres-killed.ts';
import { serviceEnded } from './service-ended.ts';
import { serviceFrozen } from './service-frozen.ts';
import { serviceKilled } from './service-killed.ts';
import { sessionsTerminated, statementsCanceled } from './signals.ts';
import { socketActivation } from './socket-activation.ts';

/** All kinds of faults, in the order of the table. */
export const FAULTS: readonly Fault[] = [
  serviceKilled,
  serviceEnded,
  serviceFrozen,
  socketActivation,
  postgresKilled,
  postgresFrozen,
  sessionsTerminated,
  statementsCanceled,
  clientsGone,
  collisions,
  rowsLocked,
  tableLocked,
  connectionsExhausted,
  diskFull,
  packetsDropped,
  blackHole,
];
