// PM2: `pm2 start deploy/ecosystem.config.cjs`, then `pm2 reload vitrine` for a restart without an interruption.
// In a project: `pm2 start node_modules/vitrine/deploy/ecosystem.config.cjs`. docs/running.md explains the settings.
const { homedir } = require('node:os');
const { join, relative } = require('node:path');
const { confinement, modulesOf } = require('../bin/confinement.cjs');

// The project that the package is installed in, or the checkout.
const [modules = join(__dirname, '..', 'node_modules')] = modulesOf(__dirname);
const cwd = join(modules, '..');

// In cluster mode PM2's own code runs in each process. It writes the log files and a file with the process id.
const pm2 = require.main?.filename ?? __filename;
const [pm2Modules = join(pm2, '../../..')] = modulesOf(pm2);
const written = ['logs', 'pids'].map((name) => join(process.env.PM2_HOME || join(homedir(), '.pm2'), name));

module.exports = {
  apps: [
    {
      name: 'vitrine',
      cwd,
      script: relative(cwd, join(__dirname, '../bin/vitrine.js')),
      args: 'serve',
      // Node's permission model: no child processes, no worker threads, and no files but these.
      node_args: confinement({ cwd, read: [cwd, pm2Modules, ...written], write: written }),
      // PM2's own monitoring needs the debugger, which the permission model closes.
      pmx: false,
      // PM2 replaces a process that uses more memory than this.
      max_memory_restart: '1G',
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
        // DATABASE_URL and RESOURCES come from the shell that starts PM2, so that this file holds no password.
      },
      // A registry or a database that does not fit ends the start: try less and less often.
      exp_backoff_restart_delay: 500,
      // A mistake on the command line, which no restart mends.
      stop_exit_codes: [2],
      merge_logs: true,
    },
  ],
};
