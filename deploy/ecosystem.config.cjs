// PM2: `pm2 start deploy/ecosystem.config.cjs`. docs/running.md says what the settings mean.
const { join } = require('node:path');

module.exports = {
  apps: [
    {
      name: 'vitrine',
      cwd: join(__dirname, '..'),
      script: 'bin/vitrine.js',
      args: 'serve',
      // More than one process needs `exec_mode: 'cluster'`; each has nine database connections of its own.
      exec_mode: 'fork',
      instances: 1,
      env: {
        NODE_ENV: 'production',
        PORT: '8000',
        TRUST_PROXY: '1',
        // DATABASE_URL and RESOURCES come from the shell that starts PM2, so that no password stands in this file.
      },
      // PM2 sends SIGINT, and SIGKILL this many milliseconds later: a stop takes 11 s at most.
      kill_timeout: 20000,
      // A registry or a database that does not fit ends the start: try less and less often.
      exp_backoff_restart_delay: 500,
      // A mistake on the command line, which no restart mends.
      stop_exit_codes: [2],
      merge_logs: true,
    },
  ],
};
