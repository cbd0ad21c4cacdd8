// What one admin may take from the others.
import { csrfIn } from '../../../test/admin/support.ts';
import { besiege, holdRow, readRow, writeRows } from '../besiege.ts';
import type { Flood } from '../jobs.ts';
import { openAdmin } from '../log-in.ts';
import type { Scenario } from '../scenario.ts';

const BOUNDARY = 'siege';

const part = (name: string, rest = ''): string =>
  `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"${rest}\r\n\r\n`;

/** Sends the same file again and again, and leaves before it is imported. */
async function importsOf(port: number, rows: number): Promise<Flood> {
  const browser = await openAdmin(port, 'ada');
  const path = '/admin/value/-/import/';
  const { text } = await browser.get(path);
  const Cookie = [...browser.cookies].map((cookie) => cookie.join('=')).join('; ');
  const file = part('_file', '; filename="a.csv"').replace('\r\n\r\n', '\r\nContent-Type: text/csv\r\n\r\n');
  return {
    kind: 'flood',
    port,
    connections: 20,
    addresses: ['10.2.0.1'],
    abandonAfter: 300,
    requests: [
      {
        method: 'POST',
        path,
        headers: { Cookie, 'Content-Type': `multipart/form-data; boundary=${BOUNDARY}` },
        body: {
          before: `${part('_csrf')}${csrfIn(text)}\r\n${file}id,integer\n`,
          repeat: ',1\n',
          times: rows,
          after: `\r\n--${BOUNDARY}--\r\n`,
        },
      },
    ],
  };
}

const imports: Scenario = {
  name: 'imports',
  title: 'one admin with 20 connections that imports files of 9,500 rows and leaves after 300 ms',
  async run(stage) {
    const siege = await besiege(stage, async (port) => [await importsOf(port, 9_500)]);
    return [readRow(siege, 10), ...writeRows(stage, siege, 100), holdRow(stage, siege.watched)];
  },
};

export const admins: readonly Scenario[] = [imports];
