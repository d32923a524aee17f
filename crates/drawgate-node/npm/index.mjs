import gateway from "./index.cjs";

export const { GatewayError, ToolGateway, getNativeToolGateway, getNativeToolGatewayError } = gateway;
export default gateway;
