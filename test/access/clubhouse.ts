// Two services on two databases, which differ only in what one caller may not see: columns, levels, rows, masked values, models.
import fc from 'fast-check';
import type { Resource, Roles } from '../../src/index.ts';
import { user as sampleUser } from '../../src/resources/registry.ts';
import { cheapHash, createDatabase, startBeside, type Sql } from '../support.ts';

export type Surface = 'api' | 'admin';

const to = (references: string) => ({ type: 'foreignKey', references, null: true }) as const;

const user = {
  ...sampleUser,
  columns: { ...sampleUser.columns, role: { type: 'array', of: 'string', null: true }, team: to('team') },
  read: 'admin',
} satisfies Resource;

const team = {
  model: 'team',
  columns: {
    name: { type: 'string' },
    lead: to('user'),
    budget: { type: 'integer', null: true, read: ['boss'] },
  },
  read: 'user',
} satisfies Resource;

const item = {
  model: 'item',
  columns: {
    name: { type: 'string' },
    team: to('team'),
    parent: to('item'),
    owner: to('user'),
    vault: to('vault'),
    amount: { type: 'decimal', precision: 12, scale: 4, null: true },
    count: { type: 'integer', null: true },
    big: { type: 'bigint', null: true },
    due: { type: 'date', null: true },
    at: { type: 'datetime', null: true },
    flag: { type: 'boolean', null: true },
    locked: { type: 'boolean', null: true },
    kind: { type: 'string', choices: ['a', 'b', 'c'] },
    tags: { type: 'array', of: 'string', null: true },
    data: { type: 'json', null: true },
    code: { type: 'uuid', null: true },
    secret: { type: 'text', null: true },
    salary: { type: 'integer', null: true, read: ['boss'], write: ['boss'] },
  },
  exclude: ['secret'],
  read: 'admin',
  access: ['clerk'],
  ordering: '-salary,name',
  admin: {
    label: '{name} {team__name} {owner__username} {secret}',
    search: ['name', 'secret', 'team__name', 'owner__username', 'owner__email', 'vault__name'],
  },
} satisfies Resource;

const part = {
  model: 'part',
  primaryKey: { columns: ['item', 'pos'] },
  columns: {
    item: { type: 'foreignKey', references: 'item', onDelete: 'cascade' },
    pos: { type: 'integer' },
    label: { type: 'string', null: true },
    price: { type: 'decimal', precision: 12, scale: 4, null: true, read: ['boss'] },
    up_item: { type: 'integer', null: true },
    up_pos: { type: 'integer', null: true },
  },
  foreignKeys: { above: { columns: ['up_item', 'up_pos'], references: 'part' } },
  read: 'admin',
} satisfies Resource;

const vault = { model: 'vault', columns: { name: { type: 'string' } }, read: 'admin' } satisfies Resource;

const note = {
  model: 'note',
  columns: { text: { type: 'text' }, item: to('item'), owner: to('user') },
  access: 'user',
  owner: 'owner',
  cache: 60,
  rows: { read: ['owner=$me', '-item__locked=true'] },
} satisfies Resource;

const overview = {
  model: 'overview',
  primaryKey: { type: 'integer', column: 'id' },
  columns: {
    name: { type: 'string', null: true },
    team: to('team'),
    amount: { type: 'decimal', precision: 12, scale: 4, null: true },
    flag: { type: 'boolean', null: true },
    secret: { type: 'text', null: true },
  },
  exclude: ['secret'],
  methods: ['GET'],
  rows: { read: 'flag__is=true' },
} satisfies Resource;

export const resources: readonly Resource[] = [user, team, item, part, vault, note, overview];

const roles = {
  boss: {
    admin: true,
    grants: {
      user: { read: { exclude: ['role'] } },
      team: { read: true },
      item: { read: true, create: true, update: true, delete: true, export: true, history: true },
      part: { read: true, history: true },
    },
  },
  clerk: {
    admin: true,
    grants: {
      user: { read: { columns: ['username', 'team'], rows: 'team=$me.team' } },
      team: { read: { rows: 'id=$me.team' } },
      item: {
        read: { exclude: ['big'], rows: 'team=$me.team' },
        create: true,
        update: { exclude: ['amount'], rows: 'team=$me.team' },
        delete: { rows: ['team=$me.team&kind=a', 'owner=$me'] },
        export: true,
        import: true,
        history: true,
      },
      part: { read: { rows: 'item__team=$me.team' }, export: true },
      note: { read: { rows: 'item__team=$me.team' }, delete: true },
    },
  },
  agent: {
    admin: true,
    grants: {
      item: {
        read: {
          columns: ['name', 'team', 'amount', 'due', 'parent', 'flag', 'big', 'kind'],
          rows: ['team__lead=$me', '-flag__is=false&kind=b'],
        },
        history: true,
      },
      part: { read: { columns: ['label'], rows: 'item__team__lead=$me' }, history: true },
    },
  },
  auditor: { admin: true, grants: { '*': { read: true, export: true, history: true } } },
} satisfies Roles;

/** The users, whose keys are their positions from 1. */
const USERS: readonly (readonly [
  name: string,
  team: number | null,
  roles: readonly string[],
  isAdmin?: true,
])[] = [
  ['ada', null, [], true],
  ['cleo', 1, ['clerk']],
  ['alf', 2, ['agent']],
  ['both', 1, ['clerk', 'agent']],
  ['bob', 3, ['boss']],
  ['paul', 2, []],
  ['aud', null, ['auditor']],
  ['lost', null, ['clerk']],
  ['zed', 4, []],
  ['yan', 1, []],
];

/** The leads of the teams. */
const LEADS = [5, 3, 4, 8];

/** What a caller sees of a table, as SQL conditions about its row `t`: none if it is absent. */
interface Seen {
  readonly rows: string;
  /** The columns that are seen in these rows, or only in those of a narrower condition. */
  readonly columns: Readonly<Record<string, string>>;
}

export interface Case {
  readonly caller: string | undefined;
  readonly surface: Surface;
  readonly sees: Readonly<Partial<Record<string, Seen>>>;
}

const all = (rows: string, ...columns: string[]): Seen => ({
  rows,
  columns: Object.fromEntries(columns.flatMap((list) => list.split(' ')).map((name) => [name, rows])),
});

const ITEM =
  'name team_id parent_id owner_id vault_id amount count big due at flag locked kind tags data code';
const PART = 'label up_item up_pos';
const TEAM = 'name lead_id';
const lockedItem = '(select i.locked from item i where i.id = t.item_id)';
const notesOf = (me: number | null, more = 'false'): Seen =>
  all(`(t.owner_id = ${me ?? 'null'} or (${lockedItem}) is not true or ${more})`, 'text item_id owner_id');
const teamOf = (column: string): string => `(select i.team_id from item i where i.id = t.${column})`;
const ledBy = (me: number, ofTeam: string): string =>
  `exists (select from team x where x.id = ${ofTeam} and x.lead_id = ${me})`;

/** The same with what the view shows of flagged items. */
function withOverview(seen: Seen): Seen {
  const columns = { ...seen.columns };
  for (const name of ['name', 'team_id', 'amount', 'flag'])
    columns[name] = `(${columns[name] ?? 'false'} or t.flag is true)`;
  return { rows: `(${seen.rows} or t.flag is true)`, columns };
}

const NOTHING: Seen = { rows: 'false', columns: {} };
const teams = all('true', TEAM);
const bossTeams = all('true', TEAM, 'budget');
const clerkItems = (mine: string): Seen => all(`(t.team_id = ${mine}) is true`, ITEM.replace(' big', ''));
const agentRows = (me: number): string =>
  `(${ledBy(me, 't.team_id')} or ((t.flag is false) is not true and t.kind = 'b'))`;
const agentItems = (me: number): Seen =>
  all(agentRows(me), 'name team_id amount due parent_id flag big kind');
const clerkParts = (mine: string): Seen => all(`(${teamOf('item_id')} = ${mine}) is true`, PART);
const agentParts = (me: number): Seen => all(ledBy(me, teamOf('item_id')), 'label');
const clerkUsers = (mine: string): Seen => all(`(t.team_id = ${mine}) is true`, 'username team_id');

function union(one: Seen, other: Seen): Seen {
  const names = new Set([...Object.keys(one.columns), ...Object.keys(other.columns)]);
  return {
    rows: `(${one.rows} or ${other.rows})`,
    columns: Object.fromEntries(
      [...names].map((name) => [
        name,
        `(${[one, other].flatMap(({ columns }) => columns[name] ?? []).join(' or ')})`,
      ]),
    ),
  };
}

const myNotes = (mine: string): string => `(${teamOf('item_id')} = ${mine}) is true`;

export const CASES: readonly Case[] = [
  { caller: undefined, surface: 'api', sees: { item: withOverview(NOTHING), note: notesOf(null) } },
  { caller: 'paul', surface: 'api', sees: { team: teams, item: withOverview(NOTHING), note: notesOf(6) } },
  {
    caller: 'cleo',
    surface: 'api',
    sees: {
      user: clerkUsers('1'),
      team: teams,
      item: withOverview(clerkItems('1')),
      part: clerkParts('1'),
      note: notesOf(2, myNotes('1')),
    },
  },
  {
    caller: 'alf',
    surface: 'api',
    sees: { team: teams, item: withOverview(agentItems(3)), part: agentParts(3), note: notesOf(3) },
  },
  {
    caller: 'both',
    surface: 'api',
    sees: {
      user: clerkUsers('1'),
      team: teams,
      item: withOverview(union(clerkItems('1'), agentItems(4))),
      part: union(clerkParts('1'), agentParts(4)),
      note: notesOf(4, myNotes('1')),
    },
  },
  {
    caller: 'lost',
    surface: 'api',
    sees: { team: teams, item: withOverview(NOTHING), note: notesOf(8) },
  },
  {
    caller: 'bob',
    surface: 'api',
    sees: {
      user: all('true', 'username join_date active admin team_id'),
      team: bossTeams,
      item: all('true', ITEM, 'salary'),
      part: all('true', PART, 'price'),
      note: notesOf(5),
    },
  },
  {
    caller: 'ada',
    surface: 'api',
    sees: {
      user: all('true', 'username join_date active admin role team_id'),
      team: bossTeams,
      item: all('true', ITEM, 'salary'),
      part: all('true', PART, 'price'),
      vault: all('true', 'name'),
      note: all('true', 'text item_id owner_id'),
    },
  },
  {
    caller: 'cleo',
    surface: 'admin',
    sees: {
      user: clerkUsers('1'),
      team: all('t.id = 1', TEAM),
      item: clerkItems('1'),
      part: clerkParts('1'),
      note: all(myNotes('1'), 'text item_id owner_id'),
    },
  },
  { caller: 'alf', surface: 'admin', sees: { item: agentItems(3), part: agentParts(3) } },
  {
    caller: 'both',
    surface: 'admin',
    sees: {
      user: clerkUsers('1'),
      team: all('t.id = 1', TEAM),
      item: union(clerkItems('1'), agentItems(4)),
      part: union(clerkParts('1'), agentParts(4)),
      note: all(myNotes('1'), 'text item_id owner_id'),
    },
  },
  { caller: 'lost', surface: 'admin', sees: {} },
  {
    caller: 'bob',
    surface: 'admin',
    sees: {
      user: all('true', 'username join_date active admin team_id'),
      team: bossTeams,
      item: all('true', ITEM, 'salary'),
      part: all('true', PART, 'price'),
    },
  },
  {
    caller: 'aud',
    surface: 'admin',
    sees: {
      user: all('true', 'username join_date active admin role team_id'),
      team: teams,
      item: all('true', ITEM),
      part: all('true', PART),
      vault: all('true', 'name'),
      note: all('true', 'text item_id owner_id'),
    },
  },
];

/** Which models the history shows a case, besides their columns. */
const HISTORY_OF: Readonly<Record<string, readonly string[]>> = {
  cleo: ['item'],
  alf: ['item', 'part'],
  both: ['item', 'part'],
  lost: ['item'],
  bob: ['item', 'part'],
  aud: ['user', 'team', 'item', 'part', 'vault', 'note'],
};

const WORDS = ['ape', 'Bat', 'cat', 'dog', 'eel', 'fox', 'a_b', 'zoë'];
const pick = (list: string): string =>
  `(array[${list}])[1 + floor(random() * ${list.split(',').length})::int]`;
const words = pick(WORDS.map((word) => `'${word}'`).join());
const orNull = (sql: string): string => `case when random() < 0.2 then null else ${sql} end`;
const keyOf = (table: string): string => `(select id from ${table} order by random() limit 1)`;

/** Random values as SQL, by table and column. */
const VALUES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  user: {
    email: `${words} || '@' || random()`,
    join_date: `timestamp '2024-01-01' + floor(random() * 900) * interval '1 day'`,
  },
  team: { name: words, budget: orNull('floor(random() * 9)::int') },
  vault: { name: words },
  item: {
    name: words,
    owner_id: orNull('1 + floor(random() * 10)::int'),
    vault_id: orNull(keyOf('vault')),
    parent_id: orNull(keyOf('item')),
    amount: orNull('floor(random() * 9)'),
    count: orNull('floor(random() * 9)::int'),
    big: orNull('floor(random() * 9)::int'),
    due: orNull(`date '2024-01-01' + floor(random() * 60)::int`),
    at: orNull(`timestamp '2024-01-01' + floor(random() * 60) * interval '1 day'`),
    tags: orNull(`array[${words}, ${words}]`),
    data: orNull(`jsonb_build_object('k', floor(random() * 4))`),
    code: orNull('md5(random()::text)::uuid'),
    secret: orNull(words),
    salary: orNull('floor(random() * 9)::int'),
    team_id: orNull('1 + floor(random() * 4)::int'),
    flag: pick('true, false, null'),
    locked: pick('true, false, null'),
    kind: pick(`'a', 'b', 'c'`),
  },
  part: { label: orNull(words), price: orNull('floor(random() * 9)') },
  note: { text: words, item_id: orNull(keyOf('item')), owner_id: orNull('1 + floor(random() * 10)::int') },
};

/** Columns that rules name: another value could make a record visible, or hide one. */
const FROZEN: Readonly<Record<string, readonly string[]>> = {
  user: ['username', 'password', 'active', 'admin', 'role', 'team_id'],
  team: ['lead_id'],
  item: ['team_id', 'locked', 'kind', 'flag', 'owner_id'],
  note: ['item_id', 'owner_id'],
};

const quote = (name: string): string => `"${name}"`;

const insertRandom = (table: string, from: number, count: number): string => {
  const columns = VALUES[table] ?? {};
  // Each value refers to the row, so that PostgreSQL computes it once per row.
  const values = Object.values(columns).map((value) => `(select ${value} where n is not null)`);
  return `insert into ${quote(table)} (id, ${Object.keys(columns).map(quote).join()}) select n, ${values.join()} from generate_series(${from}, ${from + count - 1}) n`;
};

const insertParts = (from: number, to: number): string =>
  `insert into part (item_id, pos, label, price) select i.id, n, (select ${VALUES['part']?.['label'] ?? ''} where n > 0), (select ${VALUES['part']?.['price'] ?? ''} where n > 0) from item i, generate_series(1, 2) n where i.id between ${from} and ${to} and random() < 0.6;
   update part p set up_item = o.item_id, up_pos = o.pos from part o where o.pos = 1 and p.pos = 2 and o.item_id = p.item_id`;

/** Entries of the history about records of a model, as JSON with all columns. */
const insertHistory = (from: number, model: string, where: string): string =>
  `insert into vitrine_history (id, at, user_key, user_name, door, action, model, record, before, after)
   select ${from} + row_number() over (), timestamp '2024-05-05' + row_number() over () * interval '1 minute', '1', 'ada', 'admin',
     (array['create', 'update', 'delete'])[1 + floor(random() * 3)::int], '${model}', ${model === 'part' ? `t.item_id || ',' || t.pos` : 't.id::text'}, to_json(t)::text, to_json(t)::text
   from ${quote(model)} t where ${where}`;

export const SIZES = { item: 40, hidden: 25 };

/** Fills both databases alike. */
async function fill(sql: Sql, seed: number, hashes: readonly string[]): Promise<void> {
  await sql.begin(async (one) => {
    await one.unsafe('alter table vitrine_history disable trigger all');
    await one.unsafe('truncate "user", team, item, part, vault, note, vitrine_history cascade');
    await one.unsafe(`select setseed(${(seed % 1000) / 1000})`);
    const users = USERS.map(
      ([name, , names, isAdmin], index) =>
        `(${index + 1}, '${name}', '${hashes[index] ?? ''}', '${name}@x', '2024-01-01', true, ${isAdmin === true}, '{${names.join()}}')`,
    );
    await one.unsafe(
      `insert into "user" (id, username, password, email, join_date, active, admin, role) values ${users.join()}`,
    );
    const led = LEADS.map((lead, index) => `(${index + 1}, 'team ${index + 1}', ${lead}, ${index})`);
    await one.unsafe(`insert into team (id, name, lead_id, budget) values ${led.join()}`);
    for (const [index, [, at]] of USERS.entries())
      if (at !== null) await one.unsafe(`update "user" set team_id = ${at} where id = ${index + 1}`);
    await one.unsafe(insertRandom('vault', 1, 4));
    await one.unsafe(insertRandom('item', 1, SIZES.item));
    await one.unsafe(`update item set parent_id = 1 + floor(random() * 20)::int where random() < 0.7`);
    await one.unsafe(insertParts(1, SIZES.item));
    await one.unsafe(insertRandom('note', 1, 30));
    let from = 0;
    for (const model of ['user', 'team', 'item', 'part', 'vault', 'note']) {
      await one.unsafe(insertHistory(from, model, 'random() < 0.5'));
      from += 100;
    }
  });
}

/** Changes what a caller does not see: hidden values, and records that come and go. */
async function change(sql: Sql, seed: number, { caller, sees, surface }: Case): Promise<void> {
  const isSeen = (table: string): string => sees[table]?.rows ?? 'false';
  await sql.begin(async (one) => {
    await one.unsafe(`select setseed(-${((seed % 997) + 1) / 1000})`);
    const shares = async (sql: string): Promise<number> =>
      Number((await one.unsafe<{ n: string }[]>(`select count(*) as n from ${sql}`))[0]?.n ?? 0);
    // New users and vaults, seen by those who see all of them.
    if (isSeen('vault') === 'false') {
      await one.unsafe(insertRandom('vault', 101, 6));
      await one.unsafe(
        `update item t set vault_id = null where not ${sees['item']?.columns['vault_id'] ?? 'false'}`,
      );
      await one.unsafe(
        `delete from vault v where random() < 0.7 and not exists (select from item i where i.vault_id = v.id)`,
      );
    }
    // Records that go. Visible ones may refer to hidden ones, which then stay.
    const unreferenced = `not exists (select from item o where o.parent_id = t.id) and not exists (select from note o where o.item_id = t.id)`;
    await one.unsafe(`delete from note t where not ${isSeen('note')} and random() < 0.6`);
    if (isSeen('item') !== 'true') {
      await one.unsafe(
        `delete from part t where not ${isSeen('part')} and not exists (select from part o where o.up_item = t.item_id and o.up_pos = t.pos and (o.item_id, o.pos) <> (t.item_id, t.pos)) and random() < 0.5`,
      );
      await one.unsafe(
        `delete from item t where not ${isSeen('item')} and ${unreferenced} and not exists (select from part o where o.item_id = t.id) and random() < 0.7`,
      );
      // Records that come, without those that the caller would see.
      const before = await shares('item');
      await one.unsafe(insertRandom('item', 101, SIZES.hidden));
      await one.unsafe(`update item set parent_id = null where parent_id > 100 and id <= 100`);
      await one.unsafe(`update item set parent_id = id where id > 100 and random() < 0.3`);
      await one.unsafe(`update item set parent_id = null where id > 100 and parent_id <> id`);
      await one.unsafe(`delete from item t where id > 100 and ${isSeen('item')}`);
      if ((await shares('item')) === before) throw new Error(`${caller ?? 'anyone'}: no hidden record`);
      await one.unsafe(insertParts(101, 101 + SIZES.hidden));
      await one.unsafe(`delete from part t where item_id > 100 and ${isSeen('part')}`);
    }
    const parents = sees['part']?.columns['up_item'] ?? 'false';
    await one.unsafe(
      `update part t set up_item = null, up_pos = null where not ${parents} and random() < 0.7`,
    );
    await one.unsafe(insertRandom('note', 101, 20));
    await one.unsafe(`delete from note t where id > 100 and ${isSeen('note')}`);
    for (const [table, values] of Object.entries(VALUES)) {
      const { columns = {} } = sees[table] ?? {};
      for (const [name, value] of Object.entries(values)) {
        if (FROZEN[table]?.includes(name) || name === 'vault_id' || name === 'parent_id') continue;
        const hidden = `not (${columns[name] ?? 'false'})`;
        await one.unsafe(
          `update ${quote(table)} t set ${quote(name)} = (select ${value} where t.id is not null) where ${hidden}`.replaceAll(
            't.id is',
            table === 'part' ? 't.pos is' : 't.id is',
          ),
        );
      }
    }
    if (surface !== 'admin') return;
    const shown = HISTORY_OF[caller ?? ''] ?? [];
    let from = 10_000;
    for (const model of ['user', 'team', 'item', 'part', 'vault', 'note']) {
      const key = model === 'part' ? `t.item_id || ',' || t.pos` : 't.id::text';
      const seen = shown.includes(model) ? isSeen(model) : 'false';
      const ofSeen = `exists (select from ${quote(model)} t where ${key} = h.record and ${seen})`;
      await one.unsafe(
        `delete from vitrine_history h where model = '${model}' and not ${ofSeen} and random() < 0.5`,
      );
      await one.unsafe(insertHistory(from, model, `not ${seen}`));
      from += 1000;
      // The values that only some records show are in no entry.
      const whole = Object.entries(sees[model]?.columns ?? {}).filter(
        ([, rule]) => rule === sees[model]?.rows,
      );
      const open = ['id', ...(model === 'part' ? ['item_id', 'pos'] : []), ...whole.map(([name]) => name)];
      const masked = (side: string): string =>
        `(select json_object_agg(k, case when k = any('{${open.join()}}') then v else to_json(random()::text) end)::text from json_each(h.${side}::json) e (k, v))`;
      await one.unsafe(
        `update vitrine_history h set before = ${masked('before')}, after = ${masked('after')} where model = '${model}'`,
      );
    }
  });
}

export interface Pair {
  readonly bases: readonly [string, string];
  /** Makes both databases alike but for what the case does not see. */
  readonly differ: (seed: number, one: Case) => Promise<void>;
  readonly close: () => Promise<void>;
}

const OVERVIEW = `create view overview as select id, name, team_id, amount, flag, secret from item`;

/** Starts two services whose databases have the same secret, so that their cursors are alike. */
export async function startPair(): Promise<Pair> {
  const settings = { roles, trustProxy: 0 };
  const makeView = async (sql: Sql, url: string): Promise<void> => {
    const tables = await startBeside(
      url,
      resources.filter(({ model }) => model !== 'overview'),
      settings,
    );
    await tables.close();
    await sql.unsafe(OVERVIEW);
  };
  const databases = await Promise.all([createDatabase(), createDatabase()]);
  await Promise.all(databases.map(({ sql, url }) => makeView(sql, url)));
  const [first, second] = databases;
  const secrets = await first.sql<{ name: string; value: string }[]>`select name, value from vitrine_secret`;
  for (const { name, value } of secrets)
    await second.sql`insert into vitrine_secret (name, value) values (${name}, ${value}) on conflict (name) do update set value = excluded.value`;
  const services = await Promise.all(databases.map(({ url }) => startBeside(url, resources, settings)));
  const hashes = await Promise.all(USERS.map(([name]) => cheapHash(`pw-${name}`)));
  return {
    bases: [services[0]?.base ?? '', services[1]?.base ?? ''],
    async differ(seed, one) {
      await Promise.all(databases.map(({ sql }) => fill(sql, seed, hashes)));
      await change(second.sql, seed, one);
    },
    async close() {
      await Promise.all(services.map((service) => service.close()));
      await Promise.all(databases.map((database) => database.drop()));
    },
  };
}

const MODELS = resources.map(({ model }) => model);

/** The columns that paths can name, with the model that they lead to. */
const PATHS: Readonly<Record<string, readonly (readonly [name: string, target?: string])[]>> =
  Object.fromEntries(
    resources.map(({ model, columns, foreignKeys = {} }: Resource) => [
      model,
      [
        ['id'],
        ...Object.entries(columns).map(([name, column]): [string, string?] =>
          column?.type === 'foreignKey' ? [name, column.references] : [name],
        ),
        ...Object.entries(foreignKeys).map(([name, { references }]): [string, string] => [name, references]),
      ],
    ]),
  );

const OPERATORS = [
  '',
  '',
  '__eq',
  '__ne',
  '__lt',
  '__lte',
  '__gt',
  '__gte',
  '__in',
  '__is',
  '__like',
  '__ilike',
  '__contains',
];
const TEXTS = [
  ...WORDS,
  '%a%',
  '_a%',
  'ape,cat',
  '1',
  '2',
  '3',
  '5',
  '1,2,3',
  '0',
  'true',
  'false',
  'null',
  '2024-01-20',
  '2024-02-01 00:00:00',
  '{"k":1}',
  '2,1',
  '101',
  '110',
  '9',
  '',
];

const path = (model: string): fc.Arbitrary<string> =>
  fc.array(fc.nat(), { minLength: 1, maxLength: 4 }).map((choices) => {
    let at: string | undefined = model;
    const names: string[] = [];
    for (const choice of choices) {
      const list: readonly (readonly [string, string?])[] = (at && PATHS[at]) || [];
      const [name, target] = list[choice % Math.max(1, list.length)] ?? [];
      if (name === undefined) break;
      names.push(name);
      at = target;
    }
    return names.join('__');
  });

const filter = (model: string): fc.Arbitrary<string> =>
  fc
    .tuple(
      fc.constantFrom('', '', '-'),
      path(model),
      fc.constantFrom(...OPERATORS),
      fc.constantFrom(...TEXTS),
    )
    .map(([sign, name, operator, text]) => `${sign}${name}${operator}=${encodeURIComponent(text)}`);

const order = (model: string): fc.Arbitrary<string> =>
  fc
    .array(fc.tuple(fc.constantFrom('', '-'), path(model)), { minLength: 1, maxLength: 2 })
    .map((list) => `ordering=${list.map(([sign, name]) => `${sign}${name}`).join()}`);

const query = (model: string): fc.Arbitrary<string> =>
  fc
    .tuple(
      fc.array(filter(model), { maxLength: 2 }),
      fc.option(order(model), { freq: 2 }),
      fc.constantFrom('', 'limit=3', 'limit=1&page=2', 'limit=100', 'limit=50'),
    )
    .map(([filters, ordering, paging]) =>
      [...filters, ordering ?? '', paging].filter((one) => one !== '').join('&'),
    );

const KEYS = [
  ...Array.from({ length: 42 }, (_, index) => String(index + 1)),
  ...['101', '105', '110', '0', 'x', '1,1', '2,1', '3,2', '5,1', '101,1'],
];
const key = fc.constantFrom(...KEYS);

export interface Asked {
  readonly method: 'GET' | 'HEAD' | 'POST';
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly form?: Record<string, string>;
}

const ACCEPTED = ['application/json', 'application/json', 'text/csv', 'application/x-ndjson', 'text/html'];
const PREFERRED = [
  '',
  '',
  'count=exact',
  'count=capped',
  'count=estimated',
  'paging=cursor',
  'paging=cursor, count=exact',
  'paging=none',
];

const asked = (path: string, headers: Record<string, string> = {}): Asked => ({
  method: 'GET',
  path,
  headers,
});

const ofApi: fc.Arbitrary<Asked> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc
      .constantFrom('item', 'item', 'item', ...MODELS)
      .chain((model) =>
        fc.record({
          model: fc.constant(model),
          text: query(model),
          accept: fc.constantFrom(...ACCEPTED),
          prefer: fc.constantFrom(...PREFERRED),
          method: fc.constantFrom('GET' as const, 'GET' as const, 'GET' as const, 'HEAD' as const),
        }),
      )
      .map(({ model, text, accept, prefer, method }) => ({
        method,
        path: `/api/${model}/?${text}`,
        headers: { accept, ...(prefer === '' ? {} : { prefer }) },
      })),
  },
  {
    weight: 4,
    arbitrary: fc
      .tuple(fc.constantFrom('item', ...MODELS), key, fc.constantFrom('application/json', 'text/html'))
      .map(([model, id, accept]) => asked(`/api/${model}/${id}/`, { accept })),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      asked('/api/openapi.json'),
      asked('/api/'),
      asked('/api/', { accept: 'text/html' }),
    ),
  },
);

const ofArea: fc.Arbitrary<Asked> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc
      .constantFrom('item', 'item', ...MODELS, 'vitrine_history')
      .chain((model) =>
        fc.record({
          model: fc.constant(model),
          text: query(model === 'vitrine_history' ? 'item' : model),
          search: fc.constantFrom('', '', ...WORDS, '1', 'ad', 'team 2', 'ape cat'),
          page: fc.constantFrom(
            '',
            '',
            '-/filter/',
            '-/lookup/',
            '-/export.csv',
            '-/export.json',
            '-/export.excel.csv',
            '-/add/',
          ),
          opened: fc.constantFrom(
            '',
            '&_filter=team',
            '&_filter=owner__email',
            '&_filter=secret',
            '&_filter=kind',
          ),
        }),
      )
      .map(({ model, text, search, page, opened }) =>
        asked(
          `/admin/${model}/${page}?${text}${search === '' ? '' : `&_search=${encodeURIComponent(search)}`}${opened}`,
        ),
      ),
  },
  {
    weight: 4,
    arbitrary: fc
      .tuple(
        fc.constantFrom('item', 'item', ...MODELS, 'vitrine_history'),
        key,
        fc.constantFrom('', '', 'history/', 'delete/', 'password/'),
      )
      .map(([model, id, page]) => asked(`/admin/${model}/${id}/${page}`)),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(
        fc.constantFrom(
          '',
          'model=item',
          'before__like=%25a%25',
          'after__ilike=%25ape%25',
          'record=5',
          'ordering=after',
          '_search=ape',
          '_search=cat',
          'action=delete',
          'limit=200',
          '-record__is=null',
        ),
        fc.constantFrom('', '-/export.csv', '-/lookup/'),
      )
      .map(([text, page]) => asked(`/admin/vitrine_history/${page}?${text}`)),
  },
  { weight: 1, arbitrary: fc.constantFrom(asked('/admin/'), asked('/admin/-/keys/')) },
  {
    weight: 2,
    arbitrary: fc
      .record({
        model: fc.constantFrom('item', ...MODELS),
        action: fc.constantFrom('delete', 'set', 'export.csv', 'export.json'),
        column: fc.constantFrom('name', 'team_id', 'owner_id', 'secret', 'salary', 'amount'),
        value: fc.constantFrom('', '1', 'ape', '105'),
        state: query('item'),
        ids: fc.option(key),
      })
      .map(({ model, action, column, value, state, ids }): Asked => ({
        method: 'POST',
        path: `/admin/${model}/-/bulk/`,
        headers: {},
        form: {
          _state: state,
          _action: action,
          _column: column,
          [column]: value,
          ...(value !== '' && { _value: '1' }),
          ...(ids === null ? { _all: '1' } : { _id: ids }),
        },
      })),
  },
);

export const requestsOf = (surface: Surface): fc.Arbitrary<Asked> => (surface === 'api' ? ofApi : ofArea);
