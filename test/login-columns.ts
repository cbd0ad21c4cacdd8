/** The columns that a user model needs at least, which registries of tests have with others. */
export const LOGIN_COLUMNS = {
  username: { type: 'string', unique: true },
  password: { type: 'password' },
  active: { type: 'boolean', default: true },
  admin: { type: 'boolean', default: false },
} as const;

/** The same for a registry file. */
export const LOGIN_TEXT = JSON.stringify(LOGIN_COLUMNS);
