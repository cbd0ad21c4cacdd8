// Lets Node.js 20 import registries in TypeScript, as bin/vitrine.js does in a checkout.
import { register as registerScripts } from 'tsx/cjs/api';
import { register as registerModules } from 'tsx/esm/api';

registerScripts();
registerModules();
