// The clinic of examples/clinic: its matrix of who may do what, as its README shows it, asked from the service.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import resources, { roles } from '../../examples/clinic/resources.ts';
import { credentials, fill, type Person } from '../../examples/clinic/samples.ts';
import { logIn } from '../admin/support.ts';
import { REPOSITORY } from '../paths.ts';
import { cheapHash, type Answer, type TestService, useService } from '../support.ts';

const PASSWORD = 'the clinic is open';
/** One person of each role. */
const ASKED = ['rosa', 'dora', 'paul', 'bill', 'anna'] as const satisfies readonly Person[];

type Row = Readonly<Record<string, unknown>> & { readonly id: number };

const list = (names: readonly string[]): string => (names.length === 0 ? 'no' : names.join(', '));

describe('the clinic', () => {
  let ids: Readonly<Record<Person, number>>;
  const ask = (
    who: string | undefined,
    method: string,
    path: string,
    body?: object,
    headers: Record<string, string> = {},
  ): Promise<Answer> =>
    service.request(`/api/${path}`, {
      method,
      headers: {
        ...(who !== undefined && credentials(who, PASSWORD)),
        ...(body && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body && { body: JSON.stringify(body) }),
    });
  const rowsFor = async (who: string | undefined, model: string): Promise<readonly Row[] | undefined> => {
    const { status, json } = await ask(who, 'GET', `${model}/?limit=100`);
    if (status === 401 || status === 403) return undefined;
    assert.equal(status, 200);
    return (json as { objects: Row[] }).objects;
  };

  const service: TestService = useService(resources, { roles }, async () => {
    const admin = { username: 'admin', name: 'Admin', password: await cheapHash(PASSWORD), admin: true };
    await service.sql`insert into "user" ${service.sql(admin)}`;
    ids = await fill(service.base, PASSWORD, PASSWORD);
  });

  /** What a person may do with a model: one line of the table in the README. */
  async function lineOf(who: Person, { model, columns }: (typeof resources)[number]): Promise<string> {
    const all = (await rowsFor('admin', model)) ?? [];
    const seen = await rowsFor(who, model);
    const fields = Object.keys(all[0] ?? {});
    const shown = Object.keys(seen?.[0] ?? {});
    const hidden = fields.filter((field) => !shown.includes(field));
    const kept = hidden.length <= shown.length ? `without ${list(hidden)}` : list(shown.slice(1));
    const sees = !seen
      ? 'no'
      : [`${seen.length} of ${all.length}`, ...(hidden.length > 0 ? [kept] : [])].join(', ');
    const changes = new Map<string, number>();
    let deletes = 0;
    for (const row of all) {
      for (const [name, value] of Object.entries({
        ...row,
        ...('password' in columns && { password: PASSWORD }),
      })) {
        if (name === 'id') continue;
        const { status } = await ask(who, 'PUT', `${model}/${row.id}/`, { [name]: value });
        assert.ok([200, 400, 401, 403, 404].includes(status), `${status}`);
        if (status !== 200) continue;
        // The present value is accepted also where another one is not.
        const { json } = await ask(who, 'PUT', `${model}/${row.id}/`, { [name]: {} });
        const [fault] = (json as { errors: Record<string, string[]> }).errors[name] ?? [];
        if (fault !== 'may not be set') changes.set(name, (changes.get(name) ?? 0) + 1);
      }
      // Who may not delete the record does not get as far as to its version.
      const { status } = await ask(who, 'DELETE', `${model}/${row.id}/`, undefined, {
        'if-match': '"other"',
      });
      assert.ok([401, 403, 404, 412].includes(status), `${status}`);
      if (status === 412) deletes += 1;
    }
    const counts = [...new Set(changes.values())];
    assert.ok(counts.length <= 1, 'all columns can be changed in the same records');
    const changed = changes.size === fields.length - 1 ? 'all' : list([...changes.keys()]);
    return [
      sees,
      (await adds(who, model)) ? 'yes' : 'no',
      counts[0] === undefined ? 'no' : `${changed}; in ${counts[0]} of ${all.length}`,
      deletes === 0 ? 'no' : `${deletes} of ${all.length}`,
    ].join(' | ');
  }

  /** Whether a person may add a record about one of the patients, with what the model requires. */
  async function adds(who: Person, model: string): Promise<boolean> {
    const patients = (await rowsFor('admin', 'patient')) ?? [];
    for (const { id: patient_id, doctor_id } of patients) {
      const required: Record<string, object> = {
        user: { username: `new-${who}`, password: PASSWORD, name: 'New' },
        room: { name: 'New', floor: 3 },
        medicine: { name: 'New', unit: 'g' },
        patient: { name: 'New', born: '2000-01-01', doctor_id },
        appointment: { patient_id, doctor_id, start: '2026-03-03 08:00:00' },
        visit: { patient_id, doctor_id, date: '2026-03-03' },
        prescription: { patient_id, medicine_id: 1, dose: '1 g' },
        invoice: { patient_id, issued: '2026-03-03', amount: '1.00' },
        message: { patient_id, author_id: ids[who], text: 'New' },
      };
      const { status, headers } = await ask(who, 'POST', `${model}/`, required[model]);
      assert.ok([201, 400, 401, 403].includes(status), `${status}`);
      if (status !== 201) continue;
      const path = headers.get('location')?.replace('/api/', '') ?? '';
      assert.equal((await ask('admin', 'DELETE', path)).status, 200);
      return true;
    }
    return false;
  }

  test('lets each role do what the table of its README says, and nothing else', async () => {
    const lines: string[] = [];
    for (const who of ASKED)
      for (const resource of resources) {
        const line = await lineOf(who, resource);
        if (line !== 'no | no | no | no') lines.push(`| ${who} | ${resource.model} | ${line} |`);
      }
    const readme = readFileSync(join(REPOSITORY, 'examples/clinic/README.md'), 'utf8');
    const [, table = ''] = /^\| who \| .*\n\|[ -|]+\n((?:\|.*\n)+)/m.exec(readme) ?? [];
    assert.deepEqual(table.trim().split('\n'), lines);
  });

  test('shows and takes nothing without a login', async () => {
    for (const { model } of resources) {
      assert.equal((await ask(undefined, 'GET', `${model}/`)).status, 401);
      assert.equal((await ask(undefined, 'POST', `${model}/`, {})).status, 401);
      assert.equal((await ask(undefined, 'DELETE', `${model}/1/`)).status, 401);
    }
  });

  test('lets staff into the admin area, and no patient', async () => {
    for (const who of ASKED) {
      const login = logIn(service, who, PASSWORD);
      if (who === 'paul') await assert.rejects(login);
      else await login;
    }
  });

  test('leads the staff to no page that they may not see', async () => {
    for (const who of ASKED.filter((one) => one !== 'paul')) {
      const browser = await logIn(service, who, PASSWORD);
      const found = new Set(['/admin/']);
      for (const path of found) {
        const { status, text } = await browser.get(path);
        assert.equal(status, 200, `${who} ${path}`);
        if (found.size > 300) continue;
        for (const [, href = ''] of text.matchAll(/<a[^>]* href="(\/admin\/[^"?#]*)"/g))
          if (!/export|logout/.test(href)) found.add(href);
      }
    }
  });

  test('moves no record out of what its writer may write', async () => {
    const [visit] = (await rowsFor('dora', 'visit')) ?? [];
    assert.ok(visit);
    const [prescription] = (await rowsFor('dora', 'prescription')) ?? [];
    const pia = ((await rowsFor('dan', 'patient')) ?? []).find(({ name }) => name === 'Pia Pohl');
    const path = `prescription/${prescription?.id}/`;
    const moved = await ask('dora', 'PUT', path, { patient_id: pia?.id });
    assert.equal(moved.status, 400, 'the patient of another doctor does not exist');
    assert.equal((await ask('dora', 'GET', `patient/${pia?.id}/`)).status, 404);
  });

  test('gives a nightly script a token for invoices alone', async () => {
    const made = await ask('bill', 'POST', '-/tokens/', { resources: ['invoice'], methods: ['GET', 'PUT'] });
    assert.equal(made.status, 201);
    const { token } = made.json as { token: string };
    const headers = { authorization: `Bearer ${token}` };
    const [invoice] = (await rowsFor('bill', 'invoice')) ?? [];
    const paid = await ask(undefined, 'PUT', `invoice/${invoice?.id}/`, { paid: true }, headers);
    assert.equal(paid.status, 200);
    assert.equal((await ask(undefined, 'GET', 'visit/', undefined, headers)).status, 403);
    assert.equal((await ask(undefined, 'DELETE', `invoice/${invoice?.id}/`, undefined, headers)).status, 403);
  });
});
