/** The systemd unit of a project. What it forbids the service is what deploy/vitrine.service does, which a test holds. */
export const UNIT = `# systemd unit: /etc/systemd/system/vitrine.service. On the server, with the project in /opt/vitrine:
#   sudo npm --prefix /opt/vitrine ci --omit=dev
#   sudo install -d /etc/vitrine && sudo install -m 600 /opt/vitrine/.env.example /etc/vitrine/vitrine.env
#   sudoedit /etc/vitrine/vitrine.env     # DATABASE_URL, and the other settings
#   sudo install -m 644 /opt/vitrine/vitrine.service /etc/systemd/system/
#   sudo systemctl enable --now vitrine
# The first admin, and any other command, with the settings of the service:
#   cd /opt/vitrine && sudo node --env-file=/etc/vitrine/vitrine.env node_modules/vitrine/bin/vitrine.js user add admin --admin
[Unit]
Description=Vitrine, PostgreSQL data models behind a JSON REST API
Documentation=file:///opt/vitrine/README.md
# The service waits for its database, so it needs no PostgreSQL unit to be up first.
Wants=network-online.target
After=network-online.target postgresql.service
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=exec
# It starts Node.js with its permission model: no child processes, no worker threads, no file that is not listed here.
ExecStart=/bin/sh /opt/vitrine/node_modules/vitrine/bin/confined serve
WorkingDirectory=/opt/vitrine
Environment=NODE=/usr/bin/node
# What the service may read beside the application: the folder of the registry. More folders are separated by colons.
Environment=CONFINE_READ=/opt/vitrine
# DATABASE_URL, RESOURCES and the other settings; mode 0600, because it holds a password.
EnvironmentFile=/etc/vitrine/vitrine.env
Restart=on-failure
RestartSec=2
# 2 is a mistake on the command line, which no restart mends.
RestartPreventExitStatus=2
# A stop takes 10 s for requests in flight and 1 s for the database at most.
TimeoutStopSec=20

# It runs as a user of its own that exists only while it runs, and writes nowhere but to its log.
DynamicUser=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
PrivateUsers=yes
ProtectProc=invisible
ProcSubset=pid
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RemoveIPC=yes
UMask=0077
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
# MemoryDenyWriteExecute stays off: JavaScript is compiled while it runs.
LimitNOFILE=65536
# Enough for the service at full load. systemd ends it, and starts it again, when it needs more memory.
MemoryMax=1G
# Threads count as tasks: about a dozen are in use.
TasksMax=64

[Install]
WantedBy=multi-user.target
`;
