// PM2: `pm2 start deploy/ecosystem.config.cjs`, and from then on `pm2 reload vitrine` for a restart that nobody notices.
// docs/running.md says what the settings mean.
const { join } = require('node:path');

module.exports = {
  apps: [
    {
      name: 'vitrine',
      cwd: join(__dirname, '..'),
      script: 'bin/vitrine.js',
      args: 'serve',
      // The processes share one port. Each has nine database connections of its own.
      exec_mode: 'cluster',
      instances: 2,
      // A process counts as started once it listens, which it does when its database is there and fits.
      wait_ready: true,
      // How long PM2 waits for that (milliseconds). Past it the process before is ended all the same.
      listen_timeout: 60000,
      // PM2 sends SIGINT, and SIGKILL this many milliseconds later: a stop takes 11 s at most.
      kill_timeout: 20000,
      env: {
        NODE_ENV: 'production',
        PORT: '8000',
        TRUST_PROXY: '1',
        // The processes count for themselves: the first one here, each further one a port further.
        METRICS: '127.0.0.1:9464',
        // DATABASE_URL and RESOURCES come from the shell that starts PM2, so that no password stands in this file.
      },
      // A registry or a database that does not fit ends the start: try less and less often.
      exp_backoff_restart_delay: 500,
      // A mistake on the command line, which no restart mends.
      stop_exit_codes: [2],
      merge_logs: true,
    },
  ],
};
