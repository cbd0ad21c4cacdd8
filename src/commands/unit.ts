/** The systemd unit of a new project. A test keeps its restrictions equal to those of deploy/vitrine.service. */
export const UNIT = `# systemd unit: /etc/systemd/system/vitrine.service. On the server, with the project in /opt/vitrine:
#   sudo npm --prefix /opt/vitrine ci --omit=dev
#   sudo install -d /etc/vitrine && sudo install -m 600 /opt/vitrine/.env.example /etc/vitrine/vitrine.env
#   sudoedit /etc/vitrine/vitrine.env     # DATABASE_URL, and the other settings
#   sudo install -m 644 /opt/vitrine/vitrine.service /etc/systemd/system/
#   sudo systemctl enable --now vitrine
# To create the first admin, or run any other command with the settings of the service:
#   cd /opt/vitrine && sudo node --env-file=/etc/vitrine/vitrine.env node_modules/vitrine/bin/vitrine.js user add admin --admin
[Unit]
Description=Vitrine, PostgreSQL data models behind a JSON REST API
Documentation=file:///opt/vitrine/README.md
# The service waits for its database, so it does not require a PostgreSQL unit.
Wants=network-online.target
After=network-online.target postgresql.service
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=exec
# Runs Node.js with its permission model: no child processes, no worker threads, and no other files than those listed here.
ExecStart=/bin/sh /opt/vitrine/node_modules/vitrine/bin/confined serve
WorkingDirectory=/opt/vitrine
Environment=NODE=/usr/bin/node
# Further folders that the service may read, separated by colons: here the folder of the registry.
Environment=CONFINE_READ=/opt/vitrine
# DATABASE_URL, RESOURCES and the other settings. Mode 0600, because the file holds a password.
EnvironmentFile=/etc/vitrine/vitrine.env
Restart=on-failure
RestartSec=2
# 2 means a mistake on the command line, which a restart cannot fix.
RestartPreventExitStatus=2
# A stop takes at most 10 s for requests in progress and 1 s for the database.
TimeoutStopSec=20

# The service runs as a temporary user and writes only to its log.
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
# MemoryDenyWriteExecute stays off, because JavaScript is compiled at run time.
LimitNOFILE=65536
# Enough for the service at full load. systemd restarts a service that uses more.
MemoryMax=1G
# Threads count as tasks; the service uses about a dozen.
TasksMax=64

[Install]
WantedBy=multi-user.target
`;
