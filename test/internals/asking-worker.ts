// A process of WORKERS that asks for many streams of a client at once, and tells how many were refused at once.
import { setTimeout as sleep } from 'node:timers/promises';
import { readSettings } from '../../src/config.ts';
import { SERVICE, type Requester } from '../../src/db/scheduling/requester.ts';
import { joinParent } from '../../src/workers/worker-link.ts';

const { sharing, ready } = await joinParent(readSettings({}));

/** @returns how many of ten are refused before the parent process answers */
async function askTen(key: string): Promise<number> {
  let refused = 0;
  const requester: Requester = { ...SERVICE, key, clientKind: 'anonymous' };
  for (let index = 0; index < 10; index += 1)
    void sharing
      .claimStream?.(requester, '')
      .then((leave) => (refused += Number(leave === undefined)))
      .catch(() => undefined);
  await sleep(50);
  return refused;
}
ready(`${await askTen('one')} ${await askTen('another')}`);
