// The process file for PM2: `pm2 start deploy/ecosystem.config.cjs`, then `pm2 sendSignal SIGHUP vitrine`
// to reload without interruption.
// In a project: `pm2 start node_modules/vitrine/deploy/ecosystem.config.cjs`. docs/running.md explains the settings.
const { homedir } = require('node:os');
const { join, relative } = require('node:path');
const { confinement, modulesOf } = require('../bin/confinement.cjs');

// The folder of the project that has Vitrine installed, or of the checkout.
const [modules = join(__dirname, '..', 'node_modules')] = modulesOf(__dirname);
const cwd = join(modules, '..');

// PM2's code runs in the process that it starts. It writes the log files and a file with the process id.
const pm2 = require.main?.filename ?? __filename;
const [pm2Modules = join(pm2, '../../..')] = modulesOf(pm2);
const written = ['logs', 'pids'].map((name) => join(process.env.PM2_HOME || join(homedir(), '.pm2'), name));

/** The number of processes: one for each processor. */
const WORKERS = process.env.WORKERS || 'auto';

module.exports = {
  apps: [
    {
      name: 'vitrine',
      cwd,
      script: relative(cwd, join(__dirname, '../bin/vitrine.js')),
      args: 'serve',
      // Node's permission model: no child processes, no worker threads, and no other files than these.
      node_args: confinement({ cwd, read: [cwd, pm2Modules, ...written], write: written, workers: WORKERS }),
      // PM2's monitoring needs the debugger, which the permission model forbids.
      pmx: false,
      // PM2 restarts a process that uses more memory.
      max_memory_restart: '1G',
      // One process, which starts those of WORKERS. They share one port and count together. Each needs 21 database connections, and
      // more for streams and bulk changes: see docs/running.md.
      exec_mode: 'fork',
      instances: 1,
      // A process is ready when it listens: after its database is reachable and fits the registry.
      wait_ready: true,
      // How long PM2 waits for that (milliseconds). After that it stops the old process in any case.
      listen_timeout: 60000,
      // PM2 sends SIGINT, and SIGKILL this many milliseconds later. A stop takes at most 11 s.
      kill_timeout: 20000,
      env: {
        NODE_ENV: 'production',
        PORT: '8000',
        TRUST_PROXY: '1',
        // The sums of all processes.
        METRICS: '127.0.0.1:9464',
        WORKERS,
        // DATABASE_URL and RESOURCES come from the shell that starts PM2, so that this file holds no password.
      },
      // The service exits when the registry or the database does not fit. PM2 retries with increasing delays.
      exp_backoff_restart_delay: 500,
      // A mistake on the command line, which a restart cannot fix.
      stop_exit_codes: [2],
      merge_logs: true,
    },
  ],
};
