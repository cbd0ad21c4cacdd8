// The types of the actions that a registry adds to the admin area.
import type { Level } from '../../config.ts';
import type { ColumnDefinition } from '../../db/schema/model-definition.ts';
import type { PanelValue } from './panel.ts';

/** Recognizes messages across copies of the package: a registry file may import another one than the service runs. */
const BRAND = Symbol.for('vitrine.message');

/**
 * Thrown by an action for what the person must change. The page shows it, nothing is changed, and what was typed stays.
 * Exported as `Message`.
 */
export class ActionMessage extends Error {
  /** The field of the action that must change; undefined for the action as a whole. */
  readonly field: string | undefined;
  readonly [BRAND] = true;

  constructor(text: string, field?: string) {
    super(text);
    this.name = 'Message';
    this.field = field;
  }
}

export const isActionMessage = (error: unknown): error is ActionMessage =>
  error instanceof Error && BRAND in error;

/** A record as JSON, with the columns that the person sees in the admin area. */
export type ActionRecord = Readonly<Record<string, unknown>>;

/**
 * Reads and changes records with the rights of the person, and all that a form does: checks, rules about rows and columns, the
 * history. An operation that is refused ends the action, which changes nothing then.
 */
export interface ActionOperations {
  /** A record that the person may see; undefined if there is none. */
  readonly read: (model: string, id: string | number) => Promise<ActionRecord | undefined>;
  readonly create: (model: string, values: ActionRecord) => Promise<ActionRecord>;
  readonly update: (model: string, id: string | number, values: ActionRecord) => Promise<ActionRecord>;
  readonly remove: (model: string, id: string | number) => Promise<void>;
}

export interface ActionContext {
  /** The selected records by their keys. No one else can change them until the action ends, if the person may. */
  readonly records: readonly ActionRecord[];
  /** The values of the action's fields, as JSON. Null is no value; a field that is left empty has its default. */
  readonly values: ActionRecord;
  readonly operations: ActionOperations;
  /**
   * Runs one SQL statement in the transaction of the action, with `$1`, `$2` and so on, as the role of the service: no right and no
   * rule applies, and the history records nothing. Values are texts as PostgreSQL writes them, or null.
   */
  readonly transaction: (
    statement: string,
    values?: readonly PanelValue[],
  ) => Promise<Record<string, string | null>[]>;
  readonly caller: {
    readonly id: string;
    readonly name: string;
    readonly admin: boolean;
    readonly roles: readonly string[];
  };
  /** Aborts when the person has disconnected, or when the action has taken too long. */
  readonly signal: AbortSignal;
}

/** Something that people can do with records in the admin area, beside changing and deleting them (see docs/admin.md). */
export interface CustomAction {
  /** Names it in addresses, forms and events. */
  readonly name: string;
  readonly title: string;
  /** Whether it is a button of a record, an entry in the menu of selected records, or both. */
  readonly on: readonly ('record' | 'list')[];
  /** What a form asks for first. */
  readonly fields?: Readonly<Record<string, ColumnDefinition>>;
  /** What a page asks before the action runs. */
  readonly confirm?: string;
  /** Who may run it; those who may change records of the resource when absent. */
  readonly level?: Level;
  /** Whether its operations may change logins: user names, passwords, `active`, `admin` and roles. It asks for the password then. */
  readonly changesUsers?: boolean;
  /** Runs in one transaction. @returns the message that follows, if any */
  readonly run: (context: ActionContext) => Promise<string | void> | string | void;
}
