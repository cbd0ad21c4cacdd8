// The roles of a registry file: what their users may do beyond the rules of the resources (see docs/access.md).
import type { Name } from '../../db/schema/model-definition.ts';

/** What a grant may allow. The last three are for the admin area. */
export const GRANTED = ['read', 'create', 'update', 'delete', 'export', 'import', 'history'] as const;
export type Action = (typeof GRANTED)[number];

/** The roles that everyone, every active user and every admin has. The rules of the resources are their grants. */
export const BUILT_IN_ROLES = ['anyone', 'user', 'admin'] as const;

/** All resources in the grants of a role. */
export const ALL_MODELS = '*';

/** Where a grant ends. Without keys it is the same as `true`. */
export interface GrantLimits {
  /** Of `read`: the columns that exist for the caller. Of `create` and `update`: those that may be set. All of them when absent. */
  readonly columns?: readonly Name[];
  /** All columns but these. */
  readonly exclude?: readonly Name[];
  /** The records, as a query string such as `team=$me.team`; one of them if it is an array. All of them when absent. */
  readonly rows?: string | readonly string[];
}

export type Grants = { readonly [A in Action]?: boolean | GrantLimits };

export interface Role {
  /** Whether its users may log in to the admin area. */
  readonly admin?: boolean;
  /** What its users may do, by model; `*` for all models. */
  readonly grants?: Readonly<Record<Name, Grants | undefined>>;
}

/** The export `roles` of a registry file. The user model has a column `role`, with the name of a role or an array of names. */
export type Roles = Readonly<Record<Name, Role | undefined>>;

/** The roles that the user model can name. */
export const namedRoles = (roles: Roles): string[] =>
  Object.keys(roles).filter((name) => !BUILT_IN_ROLES.some((one) => one === name));

/** Rules for the records of a resource, as in `GrantLimits`. They do not bind admins. */
export interface RowRules {
  readonly read?: string | readonly string[];
  readonly write?: string | readonly string[];
}
