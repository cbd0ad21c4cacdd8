// The catalog of messages: the texts of errors by code. A catalog in another language has the same codes.

const ENGLISH = {
  // What any statement can meet.
  busy: 'The database is busy. Try again.',
  unavailable: 'The database is unavailable. Try again.',
  canceled: 'The database took too long. Request less data, or try again.',
  writeCanceled:
    'The change took too long, perhaps because a record was locked, and other clients were waiting. Try again.',
  readTooLong: 'The query takes too long. Request less data, or try again.',
  tooMuchSpace: 'The database needs too much space for this. Request less data.',
  notReady: 'The data is not ready. Try again.',
  lostWrite:
    'The database did not answer. It is not known whether the change was made: check before you try again.',
  // Writes that the database refuses.
  notSupported: 'The database does not support this for a column of this type.',
  badValue: 'The database does not accept one of the values.',
  tooLarge: 'A value is too large for the database.',
  tooDeep: 'The database cannot process this: values are nested too deeply.',
  valueMissing: 'A value that the database requires is missing.',
  notAllowed: 'A rule of the database does not allow this.',
  valuesNotAllowed: 'A rule of the database does not allow these values.',
  conflict: 'The values conflict with those of another record.',
  invalidBody: 'The body has fields that cannot be used.',
  historyKeyTooLong: 'The key is too long for the history of changes.',
  // Duplicates and references.
  duplicate: 'A record with the same value already exists.',
  duplicateOfSelection: 'A record with the same value already exists. Nothing was changed.',
  referenced: 'Other records refer to this one.',
  referencedBy: 'Records of {models} refer to this one.',
  selectionReferenced: 'Other records refer to some of the selected records. Nothing was deleted.',
  badReference: 'Other records refer to this one, or a record that it refers to does not exist.',
  absentReference: 'A record that this one refers to does not exist.',
  absentReferences: 'At least one record refers with {fields} to a record that does not exist.',
  // Single fields.
  valueTaken: 'another record has this value',
  valueMustBeUnique: 'must be unique, so two records cannot have the same value',
  noSuchRecord: 'there is no such record',
  noSuchRecordOf: 'there is no such record ({fields})',
  ruleOfValue: 'a rule of the database does not allow this value',
  ruleOfValues: 'a rule of the database does not allow these values together',
} as const;

export type MessageCode = keyof typeof ENGLISH;

/** A message as data. */
export interface Message {
  readonly code: MessageCode;
  /** What replaces the names in braces. */
  readonly params?: Readonly<Record<string, string>>;
}

export const textOf = ({ code, params }: Message): string =>
  params ? ENGLISH[code].replace(/\{(\w+)\}/g, (_, name: string) => params[name] ?? '') : ENGLISH[code];
