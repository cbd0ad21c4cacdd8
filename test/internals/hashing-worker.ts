// A process of WORKERS that hashes a password for a client which leaves meanwhile.
import { setTimeout as sleep } from 'node:timers/promises';
import { readSettings } from '../../src/config.ts';
import { isClientGone } from '../../src/db/scheduling/requester.ts';
import { createPasswords } from '../../src/resources/passwords/password-hashing.ts';
import { joinParent } from '../../src/workers/worker-link.ts';

const link = await joinParent(readSettings({}));
const left = new AbortController();
const passwords = createPasswords(link.sharing.hashGate);
const hashed = passwords.hash('x', { signal: left.signal }).then(
  () => 'hashed',
  (error: unknown) => (isClientGone(error) ? 'gone' : 'refused'),
);
await sleep(200);
left.abort();
link.ready(await hashed);
