/** A client of the development identity provider. */
export interface DevelopmentClient {
  readonly clientId: string;
  readonly scopes: readonly string[];
  readonly tenantId?: string;
  readonly roles?: readonly string[];
}

const READ = 'factory.data.read';
const ADMIN = 'factory.data.admin';
const ACKNOWLEDGE = 'factory.data.acknowledge';

const SERVICES = ['StoreProfileService', 'ModelRouterService', 'StudioBff'];
const OWNER_HOSTS = [
  'ObservabilityHost',
  'KnowledgeHost',
  'ControlPlaneApi',
  'AgentRuntimeWorker',
  'ModelGatewayHost',
  'ToolExecutorHost',
  'IntegrationHost',
  'GovernanceHost',
];

/** People's roles, neighbouring services, and the hosts that own data. */
export const DEVELOPMENT_CLIENTS: readonly DevelopmentClient[] = [
  { clientId: 'platform-admin', scopes: [READ, ADMIN], roles: ['PlatformAdmin'] },
  { clientId: 'acme-admin', scopes: [READ, ADMIN], roles: ['WorkspaceAdmin'], tenantId: 'acme' },
  { clientId: 'globex-admin', scopes: [READ, ADMIN], roles: ['WorkspaceAdmin'], tenantId: 'globex' },
  { clientId: 'acme-observer', scopes: [READ], roles: ['Observer'], tenantId: 'acme' },
  { clientId: 'operator', scopes: [READ], roles: ['Operator'] },
  ...SERVICES.map((clientId) => ({ clientId, scopes: [READ] })),
  ...OWNER_HOSTS.map((clientId) => ({ clientId, scopes: [ACKNOWLEDGE, READ] })),
];
