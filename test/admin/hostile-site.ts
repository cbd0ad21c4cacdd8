// Records with hostile text in every place that the admin area shows, for the tests of escaping.
import type { Resource } from '../../src/index.ts';
import { startService, type TestService } from '../support.ts';
import { logIn, type Browser } from './support.ts';
import { resources as shipped, thing } from './sample-resources.ts';

export const HOSTILE = [
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "' autofocus onfocus='alert(1)",
  '&lt;script&gt;alert(1)&lt;/script&gt; &amp;',
  '</textarea><script>alert(1)</script>',
  '</title></select></option><script>alert(1)</script>',
  'javascript:alert(1)',
  'line\u2028separators\u2029<!-- ]]> -->',
  '\u202eright to left\u202c שלום',
  `emoji ${'👩‍👩‍👧'.repeat(40)}`,
  '${alert(1)} {{alert(1)}} `alert(1)`',
] as const;
const [SCRIPT, IMAGE] = HOSTILE;

const resources: readonly Resource[] = [
  ...shipped.filter(({ model }) => model !== 'thing'),
  {
    ...thing,
    columns: {
      ...thing.columns,
      name: { type: 'text', label: `Name ${SCRIPT}`, help: `Help ${IMAGE}` },
      note: { type: 'text', null: true, label: `"><script>alert(1)</script>` },
      colour: { type: 'string', choices: ['red', SCRIPT, IMAGE], default: 'red' },
      extra: { type: 'json', null: true },
      related: { type: 'foreignKey', references: 'named', null: true, onDelete: 'cascade' },
    },
    admin: { ...thing.admin, title: `Things ${IMAGE}`, group: `Group ${SCRIPT}`, label: '<b onclick="x">{name} {related}', list: ['name', 'note', 'colour', 'extra', 'related', 'author'] },
  },
  { model: 'named', primaryKey: { type: 'string', column: 'code' }, columns: { title: { type: 'text' } }, admin: { label: 'title' } },
] as unknown as Resource[]; // prettier-ignore

/** A service with hostile text in its records, and an admin with a hostile name. */
export interface HostileSite {
  readonly service: TestService;
  readonly ada: Browser;
  /** Pages that show the texts, and pages with the texts in their URLs. */
  readonly addresses: readonly string[];
  /** The ids of the records of `thing`. */
  readonly ids: readonly string[];
}

export async function openHostileSite(): Promise<HostileSite> {
  const ids: string[] = [];
  const service = await startService(resources);
  await service.addUser(IMAGE, { admin: true, email: SCRIPT });
  for (const text of HOSTILE) {
    const code = text.slice(0, 60);
    await service.sql`insert into named (code, title) values (${code}, ${text})`;
    const json = JSON.stringify({ [text]: text });
    const [row] =
      await service.sql`insert into thing (name, note, colour, extra, related_id, author_id, secret, hidden)
      values (${text}, ${text}, ${text.slice(0, 250)}, ${json}::text::jsonb, ${code}, 1, ${code}, 'out of sight') returning id`;
    ids.push(String(row?.['id']));
  }
  const ada = await logIn(service, IMAGE, `pw-${IMAGE}`);
  return { service, ada, ids, addresses: addressesOf(ids) };
}

function addressesOf(ids: readonly string[]): string[] {
  const records = ids.flatMap((id) =>
    ['', 'delete/', 'history/'].map((part) => `/admin/thing/${id}/${part}`),
  );
  const keys = HOSTILE.map((text) => `/admin/named/${encodeURIComponent(text.slice(0, 60))}/`);
  const queries = HOSTILE.flatMap((text) => {
    const value = encodeURIComponent(text);
    return [
      `/admin/thing/?_search=${value}`, `/admin/thing/?note=${value}`, `/admin/thing/?${value}=${value}`, `/admin/thing/?amount=${value}`,
      `/admin/thing/?related=${encodeURIComponent(text.slice(0, 60))}`, `/admin/thing/?ordering=${value}&page=${value}&limit=${value}`,
      `/admin/thing/?_panel=1&_has.name=${value}&_is.colour=${value}&_from.at=${value}&_path=${value}&_how=${value}&_value=${value}&_columns=${value}`, `/admin/thing/?_${value}=${value}`, `/admin/thing/-/add/?note=${value}&related=${value}&amount=${value}`,
      `/admin/thing/-/filter/?_path=author&_how=eq&_value=${value}&note=${value}`, `/admin/thing/-/filter/?_find.author=${value}&_period=${value}`,
      `/admin/vitrine_history/?_search=${value}`, `/admin/${encodeURIComponent(text)}/`, `/admin/thing/${encodeURIComponent(text)}/`,
    ]; // prettier-ignore
  });
  const pages = ['/admin/', '/admin/thing/', '/admin/named/', '/admin/user/', '/admin/user/1/', '/admin/user/1/password/', '/admin/user/1/access/', '/admin/-/account/', '/admin/-/tokens/', '/admin/vitrine_history/', '/admin/thing/-/import/', '/admin/thing/?colour=red', '/admin/thing/?related=1']; // prettier-ignore
  return [...pages, ...records, ...keys, ...queries];
}
