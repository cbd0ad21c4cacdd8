// A shop with its orders, its products and the questions of its customers.
import type { Resource } from '../../src/index.ts';

const user = {
  model: 'user',
  columns: {
    username: { type: 'string', unique: true },
    password: { type: 'password' },
    email: { type: 'string' },
    join_date: { type: 'datetime', default: 'now' },
    active: { type: 'boolean', default: true },
    admin: { type: 'boolean', default: false },
  },
  access: 'admin',
  exclude: ['password', 'email'],
  admin: { title: 'Staff', group: 'People' },
} satisfies Resource;

const customer = {
  model: 'customer',
  columns: { name: { type: 'string', unique: true }, city: { type: 'string' } },
  admin: { title: 'Customers', group: 'People', search: ['name', 'city'] },
} satisfies Resource;

const category = {
  model: 'category',
  columns: { name: { type: 'string', unique: true } },
  admin: { title: 'Categories', group: 'Catalogue' },
} satisfies Resource;

const supplier = {
  model: 'supplier',
  columns: { name: { type: 'string', unique: true }, country: { type: 'string' } },
  admin: { title: 'Suppliers', group: 'Catalogue' },
} satisfies Resource;

const product = {
  model: 'product',
  access: 'admin',
  columns: {
    sku: { type: 'string', unique: true, label: 'SKU', maxLength: 20 },
    name: { type: 'string', maxLength: 100 },
    category: { type: 'foreignKey', references: 'category' },
    supplier: { type: 'foreignKey', references: 'supplier', null: true },
    unit: { type: 'string', default: 'piece' },
    price: { type: 'decimal', min: 0 },
    description: { type: 'text', null: true },
  },
  admin: {
    title: 'Products',
    group: 'Catalogue',
    label: '{sku} {name}',
    list: ['sku', 'name', 'category', 'supplier', 'unit', 'price'],
    search: ['sku', 'name', 'unit', 'description'],
    filters: ['category', 'supplier', 'unit', 'price'],
  },
} satisfies Resource;

const order = {
  model: 'order',
  columns: {
    customer: { type: 'foreignKey', references: 'customer' },
    delivery: { type: 'date' },
    note: { type: 'text', null: true },
  },
  admin: {
    title: 'Orders',
    group: 'Sales',
    // Most orders of this shop have no more than five lines.
    inlines: [{ model: 'order_line', columns: ['product', 'quantity', 'price'], extra: 5 }],
  },
} satisfies Resource;

const orderLine = {
  model: 'order_line',
  columns: {
    order: { type: 'foreignKey', references: 'order', onDelete: 'cascade' },
    product: { type: 'foreignKey', references: 'product' },
    quantity: { type: 'integer', min: 1 },
    price: { type: 'decimal', min: 0 },
  },
  admin: { title: 'Order lines', group: 'Sales' },
} satisfies Resource;

const ticket = {
  model: 'ticket',
  columns: {
    subject: { type: 'string', maxLength: 120 },
    question: { type: 'text' },
    customer: { type: 'foreignKey', references: 'customer' },
    answer: { type: 'text', null: true },
    status: {
      type: 'string',
      choices: { open: 'Open', waiting: 'Waiting', answered: 'Answered' },
      tones: { open: 'warning', waiting: 'neutral', answered: 'success' },
      default: 'open',
    },
    priority: {
      type: 'string',
      choices: { low: 'Low', normal: 'Normal', high: 'High', urgent: 'Urgent' },
      tones: { low: 'neutral', normal: 'info', high: 'warning', urgent: 'danger' },
      default: 'normal',
    },
    owner: { type: 'foreignKey', references: 'user', null: true, onDelete: 'setNull' },
  },
  admin: {
    title: 'Tickets',
    group: 'Sales',
    list: ['subject', 'customer', 'status', 'priority', 'owner'],
    filters: ['status', 'priority', 'owner', 'customer'],
    focus: 'answer',
    readonly: ['question'],
    inlines: [{ model: 'reply', columns: ['author', 'text'], readonly: true }],
    views: [
      { title: 'Open', query: 'status=open&ordering=id' },
      { title: 'My open ones', query: 'status=open&owner=$me&ordering=id' },
    ],
  },
} satisfies Resource;

const reply = {
  model: 'reply',
  columns: {
    ticket: { type: 'foreignKey', references: 'ticket', onDelete: 'cascade' },
    author: { type: 'string' },
    text: { type: 'text' },
  },
  admin: { title: 'Replies', group: 'Sales' },
} satisfies Resource;

export default [
  user,
  customer,
  category,
  supplier,
  product,
  order,
  orderLine,
  ticket,
  reply,
] as const satisfies readonly Resource[];
