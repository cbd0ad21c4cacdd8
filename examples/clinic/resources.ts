// The registry of a clinic: nine models and five roles. README.md shows who may do what, and how to start it.

// Where Vitrine is installed from npm, this line reads: import type { Registry, Resource, Roles } from 'vitrine';
import type { Registry, Resource, Roles } from '../../src/index.ts';

// Nothing is open. Admins may do everything through the API; everyone else needs a grant of a role.
const closed = { read: 'admin', access: 'admin' } as const;

const user = {
  model: 'user',
  ...closed,
  columns: {
    username: { type: 'string', unique: true },
    password: { type: 'password' },
    name: { type: 'string' },
    active: { type: 'boolean', default: true },
    admin: { type: 'boolean', default: false },
    role: {
      type: 'string',
      choices: ['reception', 'doctor', 'patient', 'billing', 'auditor'],
      null: true,
    },
  },
  exclude: ['password'],
  admin: { title: 'People', label: 'name', list: ['name', 'username', 'role', 'active'], group: 'House' },
} satisfies Resource;

const room = {
  model: 'room',
  ...closed,
  columns: { name: { type: 'string', unique: true }, floor: { type: 'integer' } },
  admin: { title: 'Rooms', label: 'name', group: 'House' },
} satisfies Resource;

const medicine = {
  model: 'medicine',
  ...closed,
  columns: { name: { type: 'string', unique: true }, unit: { type: 'string' } },
  admin: { title: 'Medicines', label: 'name', group: 'House' },
} satisfies Resource;

const patient = {
  model: 'patient',
  ...closed,
  columns: {
    name: { type: 'string' },
    born: { type: 'date' },
    phone: { type: 'string', null: true },
    doctor: { type: 'foreignKey', references: 'user', index: true },
    // The login with which the patient sees their own record.
    account: { type: 'foreignKey', references: 'user', null: true, unique: true },
    // Only doctors and admins see it and set it: admins are in every list of roles.
    diagnosis: { type: 'text', null: true, read: ['doctor'], write: ['doctor'] },
  },
  admin: {
    title: 'Patients',
    label: 'name',
    list: ['name', 'born', 'phone', 'doctor'],
    search: ['name', 'phone'],
    group: 'Care',
  },
} satisfies Resource;

const appointment = {
  model: 'appointment',
  ...closed,
  columns: {
    patient: { type: 'foreignKey', references: 'patient', index: true },
    doctor: { type: 'foreignKey', references: 'user', index: true },
    room: { type: 'foreignKey', references: 'room', null: true },
    start: { type: 'datetime' },
    reason: { type: 'string', null: true },
    status: { type: 'string', choices: ['booked', 'done', 'missed'], default: 'booked' },
  },
  ordering: 'start',
  admin: {
    title: 'Appointments',
    label: '{patient__name} {start}',
    list: ['start', 'patient', 'doctor', 'room', 'status'],
    filters: ['start', 'doctor', 'status'],
    group: 'Care',
  },
} satisfies Resource;

const visit = {
  model: 'visit',
  ...closed,
  columns: {
    patient: { type: 'foreignKey', references: 'patient', index: true },
    doctor: { type: 'foreignKey', references: 'user', index: true },
    date: { type: 'date' },
    note: { type: 'text', default: '' },
  },
  ordering: '-date',
  admin: { title: 'Visits', label: '{patient__name} {date}', filters: ['date', 'doctor'], group: 'Care' },
} satisfies Resource;

const prescription = {
  model: 'prescription',
  ...closed,
  columns: {
    patient: { type: 'foreignKey', references: 'patient', index: true },
    medicine: { type: 'foreignKey', references: 'medicine' },
    dose: { type: 'string' },
    until: { type: 'date', null: true },
  },
  admin: { title: 'Prescriptions', label: '{medicine__name} {patient__name}', group: 'Care' },
} satisfies Resource;

const invoice = {
  model: 'invoice',
  ...closed,
  columns: {
    patient: { type: 'foreignKey', references: 'patient', index: true },
    issued: { type: 'date' },
    amount: { type: 'decimal', precision: 8, scale: 2, min: 0 },
    paid: { type: 'boolean', default: false },
  },
  ordering: '-issued',
  admin: {
    title: 'Invoices',
    label: '{patient__name} {issued}',
    filters: ['issued', 'paid'],
    group: 'Office',
  },
} satisfies Resource;

const message = {
  model: 'message',
  ...closed,
  columns: {
    patient: { type: 'foreignKey', references: 'patient', index: true },
    author: { type: 'foreignKey', references: 'user', index: true },
    sent: { type: 'datetime', default: 'now' },
    text: { type: 'text' },
  },
  readonly: ['sent'],
  ordering: '-sent',
  admin: { title: 'Messages', label: '{author__name} {sent}', search: ['text'], group: 'Care' },
} satisfies Resource;

/** The rules about rows that several grants share. */
const OWN_PATIENT = { rows: 'patient__doctor=$me' } as const;
const OWN_RECORD = { rows: 'patient__account=$me' } as const;

export const roles = {
  // Books appointments for every doctor, keeps the addresses, and knows nothing of what people have.
  reception: {
    admin: true,
    grants: {
      user: { read: { columns: ['name', 'role'], rows: 'role=doctor' } },
      room: { read: true },
      patient: { read: true, create: true, update: { columns: ['name', 'phone', 'doctor'] } },
      appointment: { read: true, create: true, update: true, delete: true },
    },
  },
  // Sees and treats their own patients.
  doctor: {
    admin: true,
    grants: {
      user: { read: { columns: ['name', 'role'], rows: 'role=doctor' } },
      room: { read: true },
      medicine: { read: true },
      patient: {
        read: { rows: 'doctor=$me' },
        update: { columns: ['diagnosis'], rows: 'doctor=$me' },
        history: true,
      },
      // One that the reception has booked, too.
      appointment: {
        read: { rows: 'doctor=$me' },
        update: { columns: ['status', 'room'], rows: 'doctor=$me' },
      },
      visit: {
        read: OWN_PATIENT,
        // A visit is written by its doctor, about an own patient.
        create: { rows: 'doctor=$me&patient__doctor=$me' },
        update: { columns: ['note'], rows: 'doctor=$me&patient__doctor=$me' },
        history: true,
      },
      prescription: { read: OWN_PATIENT, create: OWN_PATIENT, update: OWN_PATIENT, delete: OWN_PATIENT },
      message: { read: OWN_PATIENT, create: { rows: 'author=$me&patient__doctor=$me' } },
    },
  },
  // Sees the own record through the API, and writes to the own doctor.
  patient: {
    grants: {
      user: { read: { columns: ['name', 'role'], rows: ['role=doctor', 'id=$me'] } },
      patient: { read: { rows: 'account=$me' }, update: { columns: ['phone'], rows: 'account=$me' } },
      appointment: { read: { ...OWN_RECORD, exclude: ['room'] } },
      medicine: { read: true },
      prescription: { read: OWN_RECORD },
      invoice: { read: OWN_RECORD },
      message: { read: OWN_RECORD, create: { rows: 'author=$me&patient__account=$me' } },
    },
  },
  // Writes invoices. Knows who was there when, and not why.
  billing: {
    admin: true,
    grants: {
      patient: { read: { columns: ['name', 'born'] } },
      visit: { read: { columns: ['patient', 'date'] } },
      invoice: { read: true, create: true, update: true, export: true, history: true },
    },
  },
  // Reads everything but the diagnoses, and every change.
  auditor: { admin: true, grants: { '*': { read: true, export: true, history: true } } },
} satisfies Roles;

const resources = [
  user,
  room,
  medicine,
  patient,
  appointment,
  visit,
  prescription,
  invoice,
  message,
] satisfies Resource[];

export default resources satisfies Registry<typeof resources>;
