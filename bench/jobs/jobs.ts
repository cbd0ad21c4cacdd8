// The ten jobs: how a person does them, what they may take at most, and what is true in the database afterwards.
import assert from 'node:assert/strict';
import type postgres from 'postgres';
import type { Locator } from 'playwright-core';
import type { Person } from './person.ts';
import { CATEGORIES, FAULTY, NAME, PRODUCTS, SUPPLIER, TYPO, WRONG_UNIT, skuOf } from './samples.ts';

export interface Job {
  readonly name: string;
  /** What is counted; clicks when absent. */
  readonly unit?: 'taps' | 'keys';
  /** Clicks, taps or keys, and pages. */
  readonly atMost: readonly [acts: number, pages: number];
  /** The address of the page where it begins. */
  readonly start: string;
  /** Changes the records before the page is opened. */
  readonly prepare?: (world: World) => Promise<unknown>;
  readonly work: (person: Person, world: World) => Promise<void>;
  /** @throws AssertionError if the job was not done, or more than the job */
  readonly check: (world: World) => Promise<void>;
}

export interface World {
  readonly sql: postgres.Sql;
  /** Sends a request of the API as the person. */
  readonly change: (method: string, path: string, body: object) => Promise<void>;
}

const button = ({ page }: Person, name: string | RegExp): Locator => page.getByRole('button', { name });
const link = ({ page }: Person, name: string | RegExp): Locator =>
  page.locator('main').getByRole('link', { name, exact: true });
/** A field by its whole label, which has an asterisk if the field is required. */
const field = ({ page }: Person, label: string): Locator =>
  page.getByLabel(new RegExp(`^\\s*${label}\\s*\\*?\\s*$`));
const firstRecord = ({ page }: Person): Locator =>
  page.locator('table.records tbody th[scope=row] a').first();
const heading = ({ page }: Person): Promise<string> => page.getByRole('heading', { level: 1 }).innerText();

/** One number of the database. */
async function count(sql: postgres.Sql, query: postgres.PendingQuery<postgres.Row[]>): Promise<number> {
  const [row] = await sql<{ count: number }[]>`select (${query})::int as count`;
  return row?.count ?? NaN;
}

/** @throws AssertionError unless this text is on the page, so that a person can read it */
async function reads({ page }: Person, text: string | RegExp): Promise<void> {
  await page.locator('main').getByText(text).first().waitFor({ state: 'visible', timeout: 5000 });
}

const LINES = [1, 2, 3, 4, 5].map((line) => ({ sku: skuOf(line * 7), quantity: line, price: `${line}.50` }));

const TEN = 10;
const answerTo = (subject: string): string => `${subject}: it will arrive on Monday.`;

/** Reads a ticket that is open with its replies, types the answer, and sets the status. */
async function answer(person: Person): Promise<void> {
  const subject = await heading(person);
  await reads(person, /^Where is my parcel/);
  for (const author of ['Warehouse', 'Carrier']) await reads(person, new RegExp(`^${author} about ticket`));
  await person.type('the field Answer', field(person, 'Answer'), answerTo(subject));
  await person.choose('Status', field(person, 'Status'), 'Answered');
}

const answerTickets = async (person: Person): Promise<void> => {
  for (let done = 0; done < TEN; done += 1) {
    await answer(person);
    await person.follow('Save and next', button(person, 'Save and next'));
  }
};

/** How many tickets have the answer that belongs to them, and are closed. */
const answered = (sql: postgres.Sql): Promise<number> =>
  count(sql, sql`select count(*) from ticket where status = 'answered' and answer = subject || ': it will arrive on Monday.'`); // prettier-ignore

const reopen = ({ sql }: World): Promise<unknown> =>
  sql`update ticket set status = 'open', answer = null where answer is not null`;

const checkAnswered =
  (tickets: number): Job['check'] =>
  async ({ sql }) => {
    assert.equal(await answered(sql), tickets);
    assert.equal(await count(sql, sql`select count(*) from ticket where answer is not null`), tickets);
  };

const PRODUCT = 77;
const OLD_PRICE = '77.95';

/** The titles are those of the supplier. A price has a decimal comma, and eight rows are faulty. */
const FAULTS = [50, 100, 150, 200, 250, 300, 350, 400];
const PRICE_ROWS = 500;

/** Another one than the samples have. */
const newCategory = (index: number): string => CATEGORIES[(index + 1) % CATEGORIES.length] ?? '';
const newPrice = (index: number): number => 1000 + index + 0.5;

function priceList(): string {
  const rows = Array.from({ length: PRICE_ROWS }, (_, row) => {
    const index = row + 1;
    const isFaulty = FAULTS.includes(index);
    const price = newPrice(index).toLocaleString('de', { minimumFractionDigits: 2 });
    // Half of the faulty rows have a category that does not exist, the others a price that is no number.
    const [shown, group] = [
      isFaulty && index % 100 === 0 ? 'on request' : price,
      isFaulty && index % 100 !== 0 ? 'Furniture' : newCategory(index),
    ];
    return [skuOf(index), `Product ${String(index).padStart(4, '0')}`, group, shown].join(';');
  });
  return ['Article no.;Name;Category;Price', ...rows].join('\r\n');
}

export const JOBS: readonly Job[] = [
  {
    name: 'an order with five lines',
    atMost: [22, 2],
    start: '/admin/',
    async work(person) {
      await person.follow('Add beside Orders', link(person, 'Add to Orders'));
      await person.type('the field Customer', field(person, 'Customer'), 'Customer 042');
      // The list of customers covers the fields below it.
      await person.tabAndType('the field Delivery', field(person, 'Delivery'), '2026-12-24');
      for (const [index, { sku, quantity, price }] of LINES.entries()) {
        const cell = (column: string): Locator => person.page.getByLabel(`Line ${index + 1}, ${column}`);
        await person[index === 0 ? 'type' : 'tabAndType'](
          `Product of line ${index + 1}`,
          cell('Product'),
          sku,
        );
        await person.tabAndType(`Quantity of line ${index + 1}`, cell('Quantity'), String(quantity));
        await person.tabAndType(`Price of line ${index + 1}`, cell('Price'), price);
      }
      await person.follow('Save', button(person, /^Save$/));
    },
    async check({ sql }) {
      const rows = await sql<{ sku: string; quantity: number; price: string }[]>`
        select product.sku, quantity, order_line.price::text
        from order_line join "order" on "order".id = order_id join customer on customer.id = customer_id
          join product on product.id = product_id
        where customer.name = 'Customer 042' and delivery = '2026-12-24' order by order_line.id`;
      assert.deepEqual([...rows], LINES);
    },
  },
  {
    name: 'ten open tickets answered, with their replies read',
    atMost: [32, 12],
    start: '/admin/ticket/',
    async work(person) {
      await person.follow('the view Open', link(person, 'Open'));
      await person.follow('the first ticket', firstRecord(person));
      await answerTickets(person);
    },
    check: checkAnswered(TEN),
  },
  {
    name: 'open tickets of two kinds of priority, mine',
    atMost: [4, 2],
    start: '/admin/ticket/',
    async work(person, { sql }) {
      await person.follow('the view My open ones', link(person, 'My open ones'));
      for (const name of ['High', 'Urgent'])
        await person.click(`the box ${name}`, person.page.getByRole('checkbox', { name: new RegExp(`^${name}\\b`) })); // prettier-ignore
      await person.follow('Apply', button(person, 'Apply'));
      const shown = await person.page.locator('table.records tbody th[scope=row]').allInnerTexts();
      const expected = await sql<{ subject: string }[]>`
        select subject from ticket join "user" on "user".id = owner_id
        where username = ${NAME} and status = 'open' and priority in ('high', 'urgent') order by ticket.id`;
      assert.ok(expected.length > 0);
      assert.deepEqual(
        shown.map((text) => text.trim()),
        expected.map(({ subject }) => subject).slice(0, shown.length),
      );
      await reads(person, new RegExp(`of ${expected.length} records|^${expected.length} records`));
    },
    check: () => Promise.resolve(),
  },
  {
    name: 'the same wrong value in 40 records',
    atMost: [8, 4],
    start: '/admin/product/',
    async work(person) {
      await person.type('the search', person.page.getByRole('searchbox'), WRONG_UNIT);
      await person.pressAndLoad('Enter', 'searches');
      await person.click('the box all 40 records', person.page.getByLabel('all 40 records in this list'));
      await person.follow('Continue', button(person, 'Continue'));
      await person.type('the field Unit', person.page.getByRole('textbox', { name: 'Unit' }), 'piece');
      await person.follow('Continue', button(person, 'Continue'));
      await person.follow('Update 40 records', button(person, `Update ${FAULTY} records`));
    },
    async check({ sql }) {
      assert.equal(await count(sql, sql`select count(*) from product where unit = 'piece'`), await count(sql, sql`select count(*) from product`)); // prettier-ignore
      assert.equal(await count(sql, sql`select count(*) from vitrine_history where model = 'product' and after::json ->> 'unit' = 'piece'`), FAULTY); // prettier-ignore
    },
  },
  {
    name: 'a typo inside 40 different texts',
    atMost: [8, 4],
    start: '/admin/product/',
    async work(person) {
      // Records without the text stay as they are, so there is no need to search for it.
      await person.click(
        'the box all records',
        person.page.getByLabel(`all ${PRODUCTS} records in this list`),
      );
      await person.follow('Continue', button(person, 'Continue'));
      await person.type('the field Find', field(person, 'Find'), TYPO);
      await person.tabAndType('the field Replace with', field(person, 'Replace with'), 'receive');
      await person.click('the box Description', field(person, 'In Description'));
      await person.follow('Continue', button(person, 'Continue'));
      await reads(person, 'Order number 15 today');
      await person.follow('Update the records', button(person, `Update ${FAULTY} records`));
    },
    async check({ sql }) {
      const texts = await sql<{ description: string }[]>`
        select description from product where description like '%receive%' or description like ${`%${TYPO}%`}`;
      assert.equal(texts.length, FAULTY);
      for (const { description } of texts)
        assert.match(description, /^Order number (\d+) today, and receive it in \1 hours\.$/);
    },
  },
  {
    name: 'a price put back',
    atMost: [4, 3],
    start: `/admin/product/${PRODUCT}/`,
    // The order of the keys is that of the samples.
    prepare: ({ change }) => change('PATCH', `/api/product/${PRODUCT}/`, { price: '7.59' }),
    async work(person) {
      await person.follow('History', link(person, 'History'));
      await reads(person, OLD_PRICE);
      await person.follow('Put these values back', link(person, 'Put these values back').first());
      await person.follow('Save', button(person, /^Save$/));
    },
    async check({ sql }) {
      const [row] = await sql<{ price: string }[]>`select price::text from product where id = ${PRODUCT}`;
      assert.equal(row?.price, OLD_PRICE);
    },
  },
  {
    name: "a supplier's price list of 500 rows, 8 of them faulty",
    atMost: [7, 4],
    start: '/admin/product/',
    async work(person) {
      await person.follow('Import', link(person, 'Import'));
      const file = { name: 'prices.csv', mimeType: 'text/csv', buffer: Buffer.from(priceList()) };
      await person.chooseFile('CSV file', field(person, 'CSV file'), file);
      await person.follow('Preview', button(person, 'Preview'));
      await person.choose('Article no.', field(person, 'Import Article no. as'), 'SKU');
      await person.follow('Preview again', button(person, 'Preview again').first());
      const faulty = await person.download(
        'Download the faulty rows',
        button(person, /^Download the faulty/),
      );
      const chunks: Buffer[] = [];
      for await (const chunk of await faulty.createReadStream()) chunks.push(chunk as Buffer);
      assert.equal(Buffer.concat(chunks).toString().trimEnd().split('\r\n').length, 1 + FAULTS.length);
      await person.follow('Import the valid rows', button(person, /^Import the valid rows/));
    },
    async check({ sql }) {
      const rows = await sql<{ index: number; price: string; category: string }[]>`
        select substr(sku, 5)::int as index, price::text, category.name as category
        from product join category on category.id = category_id
        where substr(sku, 5)::int <= ${PRICE_ROWS} order by sku`;
      assert.equal(rows.length, PRICE_ROWS);
      const isNew = ({ index, price, category }: (typeof rows)[number]): boolean =>
        Number(price) === newPrice(index) && category === newCategory(index);
      assert.deepEqual(
        rows.filter((row) => !isNew(row)).map(({ index }) => index),
        FAULTS,
      );
    },
  },
  {
    name: 'from anywhere to the record whose label one knows',
    atMost: [2, 2],
    start: '/admin/ticket/1/',
    async work(person) {
      await person.press('Control+k', 'Go to');
      await person.write(SUPPLIER);
      await person.pressAndLoad('Enter', 'opens it');
      assert.equal(await heading(person), SUPPLIER);
    },
    check: () => Promise.resolve(),
  },
  {
    name: 'ten tickets on a phone',
    unit: 'taps',
    atMost: [3 * TEN, TEN],
    // The first one, opened from the list of the open ones.
    start: '/admin/ticket/1/?_list=status%3Dopen%26ordering%3Did',
    prepare: reopen,
    work: answerTickets,
    check: checkAnswered(TEN),
  },
  {
    name: 'a ticket by keyboard alone, from the list to the next',
    unit: 'keys',
    atMost: [8, 2],
    start: '/admin/ticket/?status=open&ordering=id',
    prepare: reopen,
    async work(person) {
      await person.press('j', 'the first ticket');
      await person.pressAndLoad('Enter', 'opens it');
      const subject = await heading(person);
      await person.write(answerTo(subject));
      await person.press('Tab', 'the field Status');
      await person.press('a', 'chooses Answered');
      await person.pressAndLoad('Control+Enter', 'saves, and opens the next');
      assert.notEqual(await heading(person), subject);
    },
    check: checkAnswered(1),
  },
];
