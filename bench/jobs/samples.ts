// The records that the jobs begin with.
import type postgres from 'postgres';

export const PASSWORD = 'pw-of-the-jobs';
/** Who does the jobs: an admin who owns half of the tickets. */
export const NAME = 'ada';

const CITIES = ['Bern', 'Lyon', 'Graz', 'Turin'];
export const CATEGORIES = ['Tools', 'Garden', 'Kitchen', 'Lamps'] as const;
export const SUPPLIER = 'Northern Supplies';
/** More than a select offers, so that a product is found by its SKU. */
export const PRODUCTS = 600;
export const TICKETS = 120;
/** How many products have the wrong unit, and how many others the typo in their texts. */
export const FAULTY = 40;
export const WRONG_UNIT = 'pcs.';
export const TYPO = 'recieve';

export const skuOf = (index: number): string => `SKU-${String(index).padStart(4, '0')}`;

export async function addSamples(sql: postgres.Sql): Promise<void> {
  await sql`insert into customer (name, city)
    select 'Customer ' || to_char(n, 'FM000'), (${CITIES}::text[])[1 + n % 4] from generate_series(1, 150) n`;
  await sql`insert into category (name) select unnest(${[...CATEGORIES]}::text[])`;
  await sql`insert into supplier (name, country) values (${SUPPLIER}, 'Norway'), ('Other Supplies', 'Spain')`;
  await sql`insert into product (sku, name, category_id, supplier_id, unit, price, description)
    select 'SKU-' || to_char(n, 'FM0000'), 'Product ' || to_char(n, 'FM0000'), 1 + n % 4, 1 + n % 2,
      case when n > ${PRODUCTS - FAULTY} then ${WRONG_UNIT} else 'piece' end, n + 0.95,
      case when n % 15 = 0 then 'Order number ' || n || ' today, and ' || ${TYPO} || ' it in ' || n || ' hours.'
        else 'A product of good quality.' end
    from generate_series(1, ${PRODUCTS}::integer) n`;
  await sql`insert into ticket (subject, question, customer_id, status, priority, owner_id)
    select 'Question ' || to_char(n, 'FM000'), 'Where is my parcel number ' || n || '?', 1 + n % 150,
      (array['open', 'open', 'waiting', 'answered'])[1 + n % 4], (array['low', 'normal', 'high', 'urgent', 'normal'])[1 + n % 5],
      (select id from "user" where n % 2 = 0 and username = ${NAME})
    from generate_series(1, ${TICKETS}::integer) n`;
  await sql`insert into reply (ticket_id, author, text)
    select id, author, author || ' about ticket ' || id from ticket, unnest(array['Warehouse', 'Carrier']) author order by id`;
}
